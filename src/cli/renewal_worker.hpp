/// Renews a lock on a thread of its own, so that a slow store delays nothing else.
#pragma once

#include "acquisition.hpp"
#include "wakeup.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace syncguard::cli {

struct renewal_report {
    enum class outcome { extended, gone, failed } result;
    std::string failure;  ///< Why it failed.
};

/// Does one renewal whenever it is told to; when that should be is not its business. Its end
/// cancels a renewal that is under way.
class renewal_worker {
  public:
    /// `lock` must outlive the worker.
    renewal_worker(held_lock& lock, milliseconds ttl);

    /// Readable while a report waits.
    [[nodiscard]] int fd() const noexcept { return reported_.fd(); }

    /// Begins a renewal. Not while another is under way.
    void start(milliseconds timeout);

    /// Whether a renewal was begun whose report was not taken yet.
    [[nodiscard]] bool busy() const noexcept { return busy_; }

    [[nodiscard]] std::optional<renewal_report> take();

  private:
    void work(const std::stop_token& stop);
    [[nodiscard]] renewal_report renew(milliseconds timeout, const std::stop_token& stop) const;

    held_lock& lock_;
    milliseconds ttl_;
    wakeup reported_;
    bool busy_ = false;
    std::mutex mutex_;
    std::condition_variable_any requested_;
    std::optional<milliseconds> request_;
    std::optional<renewal_report> report_;
    std::jthread thread_;
};

}  // namespace syncguard::cli
