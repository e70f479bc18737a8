#include "firestore/checked_options.hpp"

#include "firestore/document_names.hpp"

#include <syncguard/error.hpp>

#include <chrono>

namespace syncguard::firestore {

namespace {

constexpr std::size_t most_connections = 64;

[[noreturn]] void refuse(const char* message) {
    throw lock_error(error_code::invalid_argument, message);
}

}  // namespace

options checked(options opts) {
    (void)document_names(opts);
    if (!opts.emulator_host.empty() && !opts.endpoint.empty()) {
        refuse("Firestore is at an emulator_host or at an endpoint, not at both");
    }
    if (opts.connect_timeout <= milliseconds{0}) refuse("timeouts for Firestore must be positive");
    if (opts.most_connections == 0 || opts.most_connections > most_connections) {
        refuse("most_connections for Firestore is a number from 1 to 64");
    }
    if (!opts.clock) {
        opts.clock = [] {
            return std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
        };
    }
    return opts;
}

}  // namespace syncguard::firestore
