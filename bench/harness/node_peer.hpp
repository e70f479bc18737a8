/// Lock libraries for Node, each run in a separate process.
#pragma once

#include "support/redis_server.hpp"

#include <chrono>
#include <string>

namespace syncguard::bench {

/// A library of redis_peers/node_peer.mjs, with the number of loops at which it is fastest.
class node_peer {
  public:
    /// Tries several concurrencies for a second each, and prints the results.
    node_peer(const test::redis_server& server, std::string library);

    [[nodiscard]] const std::string& library() const noexcept { return library_; }
    /// Acquisitions and releases count separately. Throws unless all succeed.
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
