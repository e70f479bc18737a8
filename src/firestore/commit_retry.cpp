#include "firestore/commit_retry.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::firestore {

namespace {

/// A connection that breaks again and again will not get better.
constexpr unsigned most_lost = 3;

/// Being too late is nothing special; once more may be chance.
constexpr unsigned conflicts_of_contention = 3;

constexpr std::chrono::microseconds first_pause{4'000};
constexpr std::chrono::microseconds longest_pause{250'000};

}  // namespace

void attempts::failed(setback how, lock_error why, std::string versions) {
    ++count_;
    last_ = how;
    versions_ = std::move(versions);
    if (how == setback::lost) ++lost_;
    if (how == setback::lost || how == setback::failed) {
        doubt_ = why;
    } else {
        ++conflicts_;
    }
    is_under_way_ = false;
    why_ = std::move(why);
}

bool attempts::are_contended() const noexcept {
    return conflicts_ >= conflicts_of_contention;
}

void attempts::judge(const std::string& versions) const {
    if (count_ == 0) return;
    const bool is_refusal = last_ == setback::conflict && versions == versions_;
    if (last_ == setback::failed || lost_ >= most_lost || is_refusal) throw lock_error(*why_);
}

std::chrono::microseconds attempts::pause(double random) const noexcept {
    const auto longest = std::min(first_pause * (1U << std::min(count_, 10U)), longest_pause);
    return std::chrono::microseconds(
        static_cast<std::int64_t>(random * static_cast<double>(longest.count())));
}

}  // namespace syncguard::firestore
