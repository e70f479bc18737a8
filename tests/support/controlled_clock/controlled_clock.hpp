/// The wall clock of another process, controlled by a test.
#pragma once

#include "support/controlled_clock/clock_page.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace syncguard::test {

/// Starts frozen at the host's time. A test may change it while the other process runs: that
/// process sees the new time when it reads the clock next.
class controlled_clock {
  public:
    /// Keeps its state in a new file at `path`.
    explicit controlled_clock(std::filesystem::path path);
    controlled_clock(const controlled_clock&) = delete;
    controlled_clock& operator=(const controlled_clock&) = delete;
    ~controlled_clock();

    /// The environment variables, as NAME=value, with which a process uses this clock.
    [[nodiscard]] std::vector<std::string> environment() const;

    [[nodiscard]] bool is_frozen() const { return page_->frozen_at != 0; }

    /// Steps the clock forward or backward. It may be frozen or running.
    void advance(std::chrono::milliseconds step);
    /// Runs the clock from now on, ahead of the host's clock by this offset.
    void set_offset(std::chrono::milliseconds ahead_of_host);

  private:
    std::filesystem::path path_;
    clock_page* page_;
};

}  // namespace syncguard::test
