/// The wall clock of another process, in the hands of a test.
#pragma once

#include "support/controlled_clock/clock_page.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace syncguard::test {

/// Begins frozen at the host's time. It may be moved while the other process runs: that process
/// sees the new time the next time it looks at the clock.
class controlled_clock {
  public:
    /// Keeps its state in a new file at `path`.
    explicit controlled_clock(std::filesystem::path path);
    controlled_clock(const controlled_clock&) = delete;
    controlled_clock& operator=(const controlled_clock&) = delete;
    ~controlled_clock();

    /// What a process needs in its environment to live by this clock, as NAME=value.
    [[nodiscard]] std::vector<std::string> environment() const;

    [[nodiscard]] bool is_frozen() const { return page_->frozen_at != 0; }

    /// Steps the clock, forward or backward, frozen or running.
    void advance(std::chrono::milliseconds step);
    /// Lets it run from now on, that much ahead of the host's clock.
    void set_offset(std::chrono::milliseconds ahead_of_host);

  private:
    std::filesystem::path path_;
    clock_page* page_;
};

}  // namespace syncguard::test
