/// Lets one caller in at a time; the others wait within their limits.
#pragma once

#include <syncguard/engine.hpp>

#include <condition_variable>
#include <mutex>

namespace syncguard::sqlite {

class gate {
  public:
    /// Throws `lock_error`: `network_timeout` or `aborted`.
    void enter(const call_limits& limits);
    /// Waits as long as it takes.
    void enter();
    void leave();

  private:
    std::mutex mutex_;
    std::condition_variable_any opened_;
    bool taken_ = false;
};

/// Inside the gate for a scope.
class passage {
  public:
    passage(gate& through, const call_limits& limits) : through_(through) {
        through_.enter(limits);
    }
    passage(const passage&) = delete;
    passage& operator=(const passage&) = delete;
    ~passage() { through_.leave(); }

  private:
    gate& through_;
};

}  // namespace syncguard::sqlite
