/// Lock libraries of Node, each run in a process of its own.
#pragma once

#include "support/redis_server.hpp"

#include <chrono>
#include <string>

namespace syncguard::bench {

/// A library of redis_peers/node_peer.mjs, with as many loops as suit it best.
class node_peer {
  public:
    /// Tries several concurrencies for a second each, and prints what they reach.
    node_peer(const test::redis_server& server, std::string library);

    [[nodiscard]] const std::string& library() const noexcept { return library_; }
    /// An acquisition and a release count one each. Throws unless every one succeeds.
    [[nodiscard]] double operations_per_second(std::chrono::milliseconds warm_up,
                                               std::chrono::milliseconds span) const;

  private:
    [[nodiscard]] double run(int concurrency, std::chrono::milliseconds warm_up,
                             std::chrono::milliseconds span) const;

    int port_;
    std::string library_;
    int best_concurrency_ = 1;
};

}  // namespace syncguard::bench
