/// A server that a test starts as a separate program.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace syncguard::test {

/// Ends with this object, or with the thread that made it, even if the test crashes.
class server_process {
  public:
    /// Starts the program and waits until it is `up`. Its output goes to `log`. Throws
    /// `std::runtime_error` with the end of the log if the program ends, or is not `up` in time.
    server_process(const std::vector<std::string>& command, std::filesystem::path log,
                   const std::function<bool()>& up);
    server_process(const server_process&) = delete;
    server_process& operator=(const server_process&) = delete;
    ~server_process();

  private:
    [[nodiscard]] bool has_ended();
    void kill();

    std::filesystem::path log_;
    pid_t pid_ = -1;
};

}  // namespace syncguard::test
