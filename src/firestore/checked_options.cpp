#include "firestore/checked_options.hpp"

#include "firestore/document_names.hpp"

#include <syncguard/error.hpp>

#include <chrono>

namespace syncguard::firestore {

namespace {

constexpr std::size_t most_connections = 64;

[[noreturn]] void refuse(const char* why) {
    throw lock_error(error_code::invalid_argument, why);
}

}  // namespace

options checked(options store) {
    (void)document_names(store);
    if (!store.emulator_host.empty() && !store.endpoint.empty()) {
        refuse("Firestore is at an emulator_host or at an endpoint, not at both");
    }
    if (store.connect_timeout <= milliseconds{0}) refuse("timeouts for Firestore must be positive");
    if (store.most_connections == 0 || store.most_connections > most_connections) {
        refuse("most_connections for Firestore is a number from 1 to 64");
    }
    if (!store.clock) {
        store.clock = [] {
            return std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
        };
    }
    return store;
}

}  // namespace syncguard::firestore
