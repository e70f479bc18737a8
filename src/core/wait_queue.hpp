/// FIFO queues of the callers in this process that wait for a key, and the pauses in which a client
/// leaves a released key to other clients.
#pragma once

#include "util/fork_guard.hpp"

#include <syncguard/fence.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>

namespace syncguard {

/// Only the first of the threads that wait for a key asks the store, and the others rely on its
/// answers. So a thousand waiters do not send a thousand requests when the lock becomes free.
///
/// Thread safety: any number of threads may have tickets at once.
class wait_queue : private fork_participant {
  public:
    wait_queue();
    ~wait_queue() override;

    class ticket;

  private:
    struct queue {
        std::list<ticket*> tickets;
        bool first_is_asking = true;
    };

  public:
    /// A thread's place in the queue of a key, from its construction to its destruction.
    class ticket {
      public:
        ticket(wait_queue& waiters, std::string_view key);
        ticket(const ticket&) = delete;
        ticket& operator=(const ticket&) = delete;
        ~ticket();

        /// Waits until all earlier tickets are gone. False if that took until `until`, or until
        /// `stop` was requested.
        [[nodiscard]] bool wait_until_first(std::chrono::steady_clock::time_point until,
                                            const std::stop_token& stop);

        /// Returns true at once if the first in the queue is not asking the store; otherwise waits
        /// as `wait_until_first` does.
        [[nodiscard]] bool wait_until_may_ask(std::chrono::steady_clock::time_point until,
                                              const std::stop_token& stop);

        /// Records whether this ticket, if it is the first, is making an attempt. A ticket that
        /// becomes the first counts as asking until it calls this.
        void set_asking(bool is_asking);

      private:
        [[nodiscard]] bool is_first() const noexcept {
            return queue_.second.tickets.front() == this;
        }

        wait_queue& waiters_;
        const std::uint32_t process_;
        std::condition_variable_any head_changed_;
        /// Initialised last: from then on other threads can see this ticket.
        std::pair<const std::string, queue>& queue_;
    };

    // Fairness without notifications from the store: a client that releases a key and acquires it
    // again is always faster than clients that poll, so it leaves the key to them for a while.

    /// The longest time for which a client leaves a key to others.
    static constexpr std::chrono::milliseconds longest_yield{300};

    /// Records that this client was granted the key. `found_locked`: it had to wait for it.
    void granted(std::string_view key, const fence& token, bool found_locked,
                 std::chrono::steady_clock::time_point now);

    /// Records that this client releases the key.
    void released(std::string_view key, std::chrono::steady_clock::time_point now);

    /// The time until which this client leaves the key to other clients. If others were granted the
    /// key since this client's previous grant, it waits for as long as it had held the key;
    /// otherwise it waits only after a long series of grants. A time in the past if it need not
    /// wait.
    [[nodiscard]] std::chrono::steady_clock::time_point yields_until(std::string_view key);

    /// Whether the engine notified the latest attempt that waited for it, of any key.
    [[nodiscard]] bool is_notified() const noexcept { return is_notified_; }
    void set_notified(bool is_notified) noexcept { is_notified_ = is_notified; }

  private:
    /// The latest grant of a key to this client.
    struct hold {
        std::size_t key_hash = 0;
        std::uint64_t counter = 0;
        std::chrono::steady_clock::time_point granted_at;
        std::optional<std::chrono::steady_clock::time_point> released_at;
        /// The beginning of the current series of grants without a pause for other clients.
        std::chrono::steady_clock::time_point series_began;
        bool is_contended = false;
    };

    // A child has an empty queue: the waiting threads exist only in the parent.
    void before_fork() override { mutex_.lock(); }
    void after_fork_in_parent() override { mutex_.unlock(); }
    void after_fork_in_child() override;

    [[nodiscard]] std::pair<const std::string, queue>& join(std::string_view key, ticket* added);
    /// Null if the cache has no entry for the key.
    [[nodiscard]] hold* find_hold(std::string_view key);

    std::mutex mutex_;
    std::unordered_map<std::string, queue> queues_;
    /// A direct-mapped cache: keys with the same remainder replace each other.
    std::array<std::optional<hold>, 64> holds_;
    std::atomic<bool> has_holds_{false};
    std::atomic<bool> is_notified_{true};
};

}  // namespace syncguard
