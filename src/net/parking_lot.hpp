/// Futex wait table: wakes any number of sleeping threads by a few system calls.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <climits>
#include <cstddef>
#include <cstdint>

namespace syncguard::net {

/// Each waiter has one bit of one futex word; one FUTEX_WAKE_BITSET wakes any subset of 32 waiters
/// and no other thread, and unlike with a condition variable there is no mutex to queue for. Beyond
/// 2048 waiters slots are shared: wake-ups may be spurious.
///
/// Thread safety: all members may be called concurrently, `allocate_slot` by one thread at a time.
class parking_lot {
    static constexpr std::size_t bucket_count = 64;
    static constexpr std::size_t slots_per_bucket = 32;

  public:
    /// One bit of one futex word.
    struct slot {
        std::size_t bucket = 0;
        std::uint32_t mask = 0;
    };

    /// The waiters to be woken.
    class wake_list {
      public:
        void add(const slot& parked) noexcept {
            buckets_ |= std::uint64_t{1} << parked.bucket;
            masks_[parked.bucket] |= parked.mask;
        }

        [[nodiscard]] bool empty() const noexcept { return buckets_ == 0; }

      private:
        friend class parking_lot;
        std::uint64_t buckets_ = 0;
        std::array<std::uint32_t, bucket_count> masks_{};
    };

    /// Consecutive slots share a bucket, which one system call wakes. When all slots are allocated,
    /// the first one is allocated again.
    [[nodiscard]] slot allocate_slot() noexcept {
        const std::size_t number = allocated_++ % (bucket_count * slots_per_bucket);
        return {.bucket = number / slots_per_bucket,
                .mask = std::uint32_t{1} << number % slots_per_bucket};
    }

    /// Changes whenever a waiter of this bucket is woken.
    [[nodiscard]] std::uint32_t epoch(const slot& parked) const noexcept {
        return epochs_[parked.bucket].load();
    }

    /// Sleeps until woken, unless the epoch is no longer `seen`. It may also return spuriously.
    void park(const slot& own, std::uint32_t seen) noexcept {
        ::syscall(SYS_futex, &epochs_[own.bucket], FUTEX_WAIT_BITSET_PRIVATE, seen, nullptr,
                  nullptr, own.mask);
    }

    void unpark(const wake_list& waiters) noexcept {
        for (auto buckets = waiters.buckets_; buckets != 0; buckets &= buckets - 1) {
            const auto bucket = static_cast<std::size_t>(std::countr_zero(buckets));
            epochs_[bucket].fetch_add(1);
            ::syscall(SYS_futex, &epochs_[bucket], FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr,
                      nullptr, waiters.masks_[bucket]);
        }
    }

  private:
    using futex_word = std::atomic<std::uint32_t>;
    static_assert(sizeof(futex_word) == sizeof(std::uint32_t) && futex_word::is_always_lock_free);

    std::array<futex_word, bucket_count> epochs_{};
    std::size_t allocated_ = 0;
};

}  // namespace syncguard::net
