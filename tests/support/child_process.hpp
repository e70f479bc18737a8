/// A second process, for tests that need more than threads.
#pragma once

#include <sys/types.h>

#include <functional>

namespace syncguard::test {

/// Runs a function in a forked child; the child exits with what the function returns, or with 99 if
/// it throws. Destruction kills and reaps a child that still runs.
class child_process {
  public:
    explicit child_process(const std::function<int()>& body);
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    ~child_process();

    void kill(int signal) const;
    /// Stops the child, and returns when it has stopped. SIGCONT continues it.
    void stop() const;
    /// The exit code, or 128 + the signal that ended it.
    int wait();

  private:
    pid_t pid_;
};

}  // namespace syncguard::test
