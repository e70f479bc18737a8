/// Records the losses that the handlers of leases received.
#pragma once

#include <syncguard/loss.hpp>
#include <syncguard/time.hpp>

#include <mutex>
#include <string>
#include <vector>

namespace syncguard::test {

/// Must outlive the leases whose losses it records.
class loss_recorder {
  public:
    struct record {
        loss event;
        lease_clock::time_point at;
    };

    [[nodiscard]] loss_handler handler() {
        return [this](const loss& event) {
            const std::lock_guard guard(mutex_);
            losses_.push_back({event, lease_clock::now()});
        };
    }
    [[nodiscard]] std::vector<record> losses() const {
        const std::lock_guard guard(mutex_);
        return losses_;
    }
    [[nodiscard]] bool any() const { return !losses().empty(); }
    [[nodiscard]] record first() const { return losses().at(0); }

  private:
    mutable std::mutex mutex_;
    std::vector<record> losses_;
};

/// The message of an exception; "none" for null.
inline std::string text_of(const std::exception_ptr& failure) {
    if (!failure) return "none";
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        return error.what();
    }
}

}  // namespace syncguard::test
