#include "firestore/commit_retry.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::firestore {

namespace {

/// After this number of lost answers the call fails.
constexpr unsigned max_lost = 3;

/// One or two conflicts may be chance.
constexpr unsigned conflicts_of_contention = 3;

constexpr std::chrono::microseconds first_pause{4'000};
constexpr std::chrono::microseconds longest_pause{250'000};

}  // namespace

void commit_retry::failed(commit_failure kind, lock_error error, std::string versions) {
    ++count_;
    last_ = kind;
    versions_ = std::move(versions);
    if (kind == commit_failure::response_lost) ++lost_;
    if (kind == commit_failure::response_lost || kind == commit_failure::server_failed) {
        unknown_outcome_ = error;
    } else {
        ++conflicts_;
    }
    is_under_way_ = false;
    error_ = std::move(error);
}

bool commit_retry::is_contended() const noexcept {
    return conflicts_ >= conflicts_of_contention;
}

void commit_retry::throw_if_hopeless(const std::string& versions) const {
    if (count_ == 0) return;
    const bool is_refusal = last_ == commit_failure::precondition && versions == versions_;
    if (last_ == commit_failure::server_failed || lost_ >= max_lost || is_refusal) {
        throw lock_error(*error_);
    }
}

std::chrono::microseconds commit_retry::pause(double random) const noexcept {
    const auto longest = std::min(first_pause * (1U << std::min(count_, 10U)), longest_pause);
    return std::chrono::microseconds(
        static_cast<std::int64_t>(random * static_cast<double>(longest.count())));
}

}  // namespace syncguard::firestore
