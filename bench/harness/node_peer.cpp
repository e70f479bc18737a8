#include "harness/node_peer.hpp"

#include <boost/json.hpp>

#include <cstdio>
#include <stdexcept>
#include <utility>

namespace syncguard::bench {

using namespace std::chrono_literals;

namespace {

std::string in_seconds(std::chrono::milliseconds span) {
    return std::to_string(std::chrono::duration<double>(span).count());
}

/// The output of a shell command. Does not use fork(), whose handlers would interrupt the engines
/// of this process.
std::string output_of(const std::string& shell_command) {
    FILE* pipe = ::popen(shell_command.c_str(), "re");
    std::string output;
    if (pipe != nullptr) {
        for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
            output.push_back(static_cast<char>(c));
        if (::pclose(pipe) == 0) return output;
    }
    throw std::runtime_error("this failed; its own words are above: " + shell_command);
}

}  // namespace

node_peer::node_peer(const test::redis_server& server, std::string library)
    : port_(server.port()), library_(std::move(library)) {
    double best = 0;
    for (const int concurrency : {1, 16, 64, 256, 1024}) {
        const double figure = run(concurrency, 1s, 1s);
        std::printf("%s with %d loops: %.0f operations/s\n", library_.c_str(), concurrency, figure);
        if (figure <= best) continue;
        best = figure;
        best_concurrency_ = concurrency;
    }
}

double node_peer::operations_per_second(std::chrono::milliseconds warm_up,
                                        std::chrono::milliseconds span) const {
    return run(best_concurrency_, warm_up, span);
}

double node_peer::run(int concurrency, std::chrono::milliseconds warm_up,
                      std::chrono::milliseconds span) const {
    const auto line = output_of("exec node '" SYNCGUARD_NODE_PEERS "/node_peer.mjs' " + library_ +
                                " " + std::to_string(port_) + " " + std::to_string(concurrency) +
                                " " + in_seconds(warm_up) + " " + in_seconds(span));
    return boost::json::parse(line).at("operations_per_second").to_number<double>();
}

}  // namespace syncguard::bench
