/// Real processes for tests: started with captured output, awaited with a deadline.
#pragma once

#include "support/eventually.hpp"

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::cli::test {

using std::chrono::milliseconds;
using syncguard::test::eventually;

/// Long, because only a failing test waits until this limit.
inline constexpr milliseconds patience = std::chrono::seconds{20};

/// Whether a process has ended. A zombie counts as ended.
[[nodiscard]] bool is_gone(pid_t pid);

/// The whole file; empty if there is none.
[[nodiscard]] std::string contents(const std::filesystem::path& file);

struct finished {
    int exit_code = -1;  ///< -1 if a signal killed it.
    int signal = 0;      ///< 0 if no signal killed it.
    std::string out;
    std::string err;
};

struct start_options {
    std::vector<std::pair<std::string, std::string>> environment{};
    std::string input{};  ///< The contents of its standard input.
    std::vector<int> ignored_signals{};
    /// File descriptor of a pseudo terminal, which becomes the controlling terminal of a new
    /// session.
    std::optional<int> terminal{};
    /// The user that the process runs as. Needs root.
    std::optional<uid_t> user{};
};

class process {
  public:
    /// The files that capture its output are made in `folder`.
    process(const std::filesystem::path& folder, const std::vector<std::string>& command,
            const start_options& options = {});
    process(const process&) = delete;
    process& operator=(const process&) = delete;
    /// Kills the process if it still runs.
    ~process();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    [[nodiscard]] std::string out() const { return contents(out_); }
    [[nodiscard]] std::string err() const { return contents(err_); }
    void signal(int number) const;
    [[nodiscard]] bool running();

    /// Waits until it ends. A process that does not end fails the test, and is killed.
    finished wait(milliseconds limit = patience);

  private:
    std::filesystem::path out_;
    std::filesystem::path err_;
    pid_t pid_ = -1;
    std::optional<int> status_;
};

}  // namespace syncguard::cli::test
