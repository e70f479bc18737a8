/// Who waits for which key in this process, first come, first served.
#pragma once

#include "fork_guard.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>

namespace syncguard {

/// Of all threads that wait for a key, only the first asks the store: a lock that becomes free is
/// not worth a thousand attempts.
///
/// Thread safety: any number of threads may have places at once.
class waiting_line : private fork_participant {
  public:
    waiting_line();
    ~waiting_line() override;

    /// A thread's place in the line of a key, from its construction to its end.
    class place {
      public:
        place(waiting_line& line, std::string_view key);
        place(const place&) = delete;
        place& operator=(const place&) = delete;
        ~place();

        /// Waits for those in front to leave. False if that took until `until`, or until `stop` was
        /// requested.
        [[nodiscard]] bool is_first_by(std::chrono::steady_clock::time_point until,
                                       const std::stop_token& stop);

      private:
        [[nodiscard]] bool is_first() const noexcept { return queue_.second.front() == this; }

        waiting_line& line_;
        const std::uint32_t process_;
        std::condition_variable_any moved_up_;
        /// Made last: from then on others know of this place.
        std::pair<const std::string, std::list<place*>>& queue_;
    };

  private:
    // The threads of the parent wait in the parent.
    void before_fork() override { mutex_.lock(); }
    void after_fork_in_parent() override { mutex_.unlock(); }
    void after_fork_in_child() override;

    [[nodiscard]] std::pair<const std::string, std::list<place*>>& join(std::string_view key,
                                                                        place* who);

    std::mutex mutex_;
    std::unordered_map<std::string, std::list<place*>> queues_;
};

}  // namespace syncguard
