/// Many threads asleep on one word, woken by one call.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace syncguard::net {

/// A word that threads sleep on until it changes. Unlike a condition variable it wakes any number
/// of threads with one call of the system, and leaves them no mutex to queue for.
class wake_word {
  public:
    [[nodiscard]] std::uint32_t value() const noexcept { return word_.load(); }

    /// Sleeps unless the value has changed since it was `seen`. It may also return without reason.
    void sleep(std::uint32_t seen) noexcept {
        ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    }
    void wake_one() noexcept { change_and_wake(1); }
    void wake_all() noexcept { change_and_wake(INT_MAX); }

  private:
    void change_and_wake(int threads) noexcept {
        word_.fetch_add(1);
        ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
    }

    std::atomic<std::uint32_t> word_{0};
    static_assert(sizeof(word_) == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free);
};

}  // namespace syncguard::net
