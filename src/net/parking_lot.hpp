/// Many threads asleep, of whom any number are woken by a few calls of the system.
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

/// Rooms with beds: a futex word for each room, and a bit for each bed. Whoever is woken, wakes
/// alone: unlike a condition variable it leaves the others asleep, and no mutex to queue for.
///
/// Thread safety: all members may be called concurrently, `assign` by one thread at a time.
class dormitory {
    static constexpr std::size_t room_count = 64;
    static constexpr std::size_t beds_in_a_room = 32;

  public:
    /// One bed of one room.
    struct place {
        std::size_t room = 0;
        std::uint32_t bed = 0;
    };

    /// Those who are to be woken.
    class wake_list {
      public:
        void add(const place& which) noexcept {
            rooms_ |= std::uint64_t{1} << which.room;
            beds_[which.room] |= which.bed;
        }

        [[nodiscard]] bool empty() const noexcept { return rooms_ == 0; }

      private:
        friend class dormitory;
        std::uint64_t rooms_ = 0;
        std::array<std::uint32_t, room_count> beds_{};
    };

    /// Those who come one after the other share a room, where one call wakes them. When all beds
    /// are assigned, the first one is assigned again: whoever shares a bed is woken for nothing.
    [[nodiscard]] place assign() noexcept {
        const std::size_t number = assigned_++ % (room_count * beds_in_a_room);
        return {.room = number / beds_in_a_room,
                .bed = std::uint32_t{1} << number % beds_in_a_room};
    }

    /// Changes whenever somebody in this room is woken.
    [[nodiscard]] std::uint32_t time_in(const place& which) const noexcept {
        return clocks_[which.room].load();
    }

    /// Sleeps until woken, unless the time has changed since it was `seen`. It may also return
    /// without reason.
    void sleep(const place& where, std::uint32_t seen) noexcept {
        ::syscall(SYS_futex, &clocks_[where.room], FUTEX_WAIT_BITSET_PRIVATE, seen, nullptr,
                  nullptr, where.bed);
    }

    void wake(const wake_list& whom) noexcept {
        for (auto rooms = whom.rooms_; rooms != 0; rooms &= rooms - 1) {
            const auto room = static_cast<std::size_t>(std::countr_zero(rooms));
            clocks_[room].fetch_add(1);
            ::syscall(SYS_futex, &clocks_[room], FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr,
                      nullptr, whom.beds_[room]);
        }
    }

  private:
    using clock = std::atomic<std::uint32_t>;
    static_assert(sizeof(clock) == sizeof(std::uint32_t) && clock::is_always_lock_free);

    std::array<clock, room_count> clocks_{};
    std::size_t assigned_ = 0;
};

}  // namespace syncguard::net
