/// A real second process, for what threads cannot show.
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
    /// Returns when it has stopped; SIGCONT lets it go on.
    void stop() const;
    /// The exit code, or 128 + the signal that ended it.
    int wait();

  private:
    pid_t pid_;
};

}  // namespace syncguard::test
