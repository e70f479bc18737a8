/// Decides whether to repeat a failed commit. Pure.
#pragma once

#include <syncguard/error.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace syncguard::firestore {

/// Why a commit was not acknowledged.
enum class commit_failure {
    precondition,   ///< A document had changed. Nothing was written.
    contention,     ///< Concurrent commits of other clients. Nothing was written.
    response_lost,  ///< No answer came: the commit may have been executed.
    server_failed,  ///< The server failed: the commit may have been executed.
};

/// The failed commits of one call. After each failure the call reads the documents again, then
/// calls `throw_if_hopeless`.
class commit_retry {
  public:
    /// A commit is about to be sent. Until its result is known, it may have been executed.
    void begin() noexcept { is_under_way_ = true; }

    /// The commit was refused, or never sent.
    void had_no_effect() noexcept { is_under_way_ = false; }

    /// `versions` are those that the commit required.
    void failed(commit_failure kind, lock_error error, std::string versions);

    /// Called after reading the documents again, with their versions, if the write is not there.
    /// Throws the last error if a repetition cannot succeed.
    void throw_if_hopeless(const std::string& versions) const;

    /// The error of the last commit of unknown outcome, which may have been executed or may still
    /// be; nothing if there is none.
    [[nodiscard]] const std::optional<lock_error>& unknown_outcome() const noexcept {
        return unknown_outcome_;
    }

    /// Whether there is a commit of unknown outcome, or one whose result is not known yet.
    [[nodiscard]] bool is_outcome_unknown() const noexcept {
        return is_under_way_ || unknown_outcome_;
    }

    /// Whether commits of other clients were the reason of repeated failures.
    [[nodiscard]] bool is_contended() const noexcept;

    [[nodiscard]] bool is_first() const noexcept { return count_ == 0; }

    /// How long to wait before the next commit; `random` is a number in [0, 1).
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
