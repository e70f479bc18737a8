/// Forks in another thread while a connection is being made.
#pragma once

#include "support/child_process.hpp"
#include "support/socket_hook.hpp"

#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>

namespace syncguard::test {

/// Forks a child, which keeps running, when the first socket has been created and its creator does
/// not know its number yet. If the fork has to wait, the creator continues after some time.
class fork_in_connect {
  public:
    /// Returns when the child exists. It is killed when this object is destroyed.
    void wait_for_child() { forked_.get(); }

  private:
    void fork_elsewhere() {
        std::call_once(once_, [this] {
            forked_ = std::async(std::launch::async,
                                 [this] { child_.emplace([] { return ::pause(); }); });
            (void)forked_.wait_for(std::chrono::milliseconds(500));
        });
    }

    std::once_flag once_;
    std::future<void> forked_;
    std::optional<child_process> child_;
    socket_hook hook_{[this] { fork_elsewhere(); }};
};

}  // namespace syncguard::test
