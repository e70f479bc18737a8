/// The deadline of a lease, in memory that a process shares with its forked child.
#pragma once

#include <syncguard/time.hpp>

#include <atomic>

namespace syncguard::cli {

/// The parent sets it; the child compares it with the clock before it executes the command.
class shared_deadline {
  public:
    /// Throws `std::system_error`.
    explicit shared_deadline(lease_clock::time_point deadline);
    shared_deadline(const shared_deadline&) = delete;
    shared_deadline& operator=(const shared_deadline&) = delete;
    ~shared_deadline();

    void set(lease_clock::time_point deadline) noexcept;

    /// Async-signal-safe.
    [[nodiscard]] bool has_passed() const noexcept;

  private:
    std::atomic<lease_clock::rep>* value_;
};

}  // namespace syncguard::cli
