/// Decides whether a failed commit is tried again. Pure.
#pragma once

#include <syncguard/error.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace syncguard::firestore {

/// Why a commit was not acknowledged.
enum class commit_failure {
    precondition,   ///< Something had changed. Nothing was written.
    contention,     ///< Others were at it at the same time. Nothing was written.
    response_lost,  ///< The answer did not come: it may have been written.
    server_failed,  ///< The server failed: it may have been written.
};

/// The failed commits of one call. After each of them it reads again and asks here whether to go
/// on.
class commit_retry {
  public:
    /// A commit is about to be sent. Until more is known of it, it may have been written.
    void begin() noexcept { is_under_way_ = true; }

    /// It was refused for good, or never sent.
    void had_no_effect() noexcept { is_under_way_ = false; }

    /// `versions` are those that the commit demanded.
    void failed(commit_failure kind, lock_error error, std::string versions);

    /// Having read again and found the write undone, with these versions: throws the reason of the
    /// last failure if trying again makes no sense.
    void throw_if_hopeless(const std::string& versions) const;

    /// Whether a write may have taken effect, or may yet. Why the last one is unknown.
    [[nodiscard]] const std::optional<lock_error>& unknown_outcome() const noexcept {
        return unknown_outcome_;
    }

    /// The same, or the last commit is still under way.
    [[nodiscard]] bool is_outcome_unknown() const noexcept {
        return is_under_way_ || unknown_outcome_;
    }

    /// Whether others were faster so often that it is them who keep it from being done.
    [[nodiscard]] bool is_contended() const noexcept;

    [[nodiscard]] bool is_first() const noexcept { return count_ == 0; }

    /// How long to wait before the next one; `random` is a number in [0, 1).
    [[nodiscard]] std::chrono::microseconds pause(double random) const noexcept;

  private:
    unsigned count_ = 0;
    unsigned lost_ = 0;
    unsigned conflicts_ = 0;
    bool is_under_way_ = false;
    commit_failure last_{};
    std::optional<lock_error> error_;
    std::string versions_;
    std::optional<lock_error> unknown_outcome_;
};

}  // namespace syncguard::firestore
