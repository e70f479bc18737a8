/// Fills a server with locks of other clients.
#pragma once

#include "support/redis_server.hpp"

namespace syncguard::bench {

/// Writes `count` locks that outlive the benchmark, each with its index and its fence counter.
void fill_with_live_locks(const test::redis_server& server, int count);

}  // namespace syncguard::bench
