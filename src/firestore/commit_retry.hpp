/// When a write that did not come off is tried again. Pure.
#pragma once

#include <syncguard/error.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace syncguard::firestore {

/// How a commit ended that was not acknowledged.
enum class setback {
    conflict,    ///< Something had changed. Nothing was written.
    contention,  ///< Others were at it at the same time. Nothing was written.
    lost,        ///< The answer did not come: it may have been written.
    failed,      ///< The server failed: it may have been written.
};

/// What one call has behind it. After each setback it reads again, and asks here whether to go on.
class attempts {
  public:
    /// A commit is about to be sent. Until more is known of it, it may have been written.
    void begin() noexcept { is_under_way_ = true; }

    /// It was refused for good, or never sent.
    void had_no_effect() noexcept { is_under_way_ = false; }

    /// `versions` are those that the commit demanded.
    void failed(setback how, lock_error why, std::string versions);

    /// Having read again and found the write undone, with these versions: throws the reason of the
    /// last setback if trying again makes no sense.
    void judge(const std::string& versions) const;

    /// Whether a write may have taken effect, or may yet. Why the last one is unknown.
    [[nodiscard]] const std::optional<lock_error>& doubt() const noexcept { return doubt_; }

    /// The same, be it that nobody came to know how the last one ended.
    [[nodiscard]] bool is_in_doubt() const noexcept { return is_under_way_ || doubt_; }

    /// Whether others were faster so often that it is them who keep it from being done.
    [[nodiscard]] bool are_contended() const noexcept;

    [[nodiscard]] bool is_first() const noexcept { return count_ == 0; }

    /// How long to wait before the next one; `random` is a number in [0, 1).
    [[nodiscard]] std::chrono::microseconds pause(double random) const noexcept;

  private:
    unsigned count_ = 0;
    unsigned lost_ = 0;
    unsigned conflicts_ = 0;
    bool is_under_way_ = false;
    setback last_{};
    std::optional<lock_error> why_;
    std::string versions_;
    std::optional<lock_error> doubt_;
};

}  // namespace syncguard::firestore
