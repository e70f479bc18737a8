/// The engine-independent state of a held lock. Not part of the API: use `lease` or `held`.
#pragma once

#include <syncguard/detail/lease_deadline.hpp>
#include <syncguard/fence.hpp>
#include <syncguard/lock_id.hpp>
#include <syncguard/loss.hpp>
#include <syncguard/options.hpp>
#include <syncguard/result.hpp>
#include <syncguard/time.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

namespace syncguard {
struct lease_monitor_entry;
}

namespace syncguard::detail {

class backend_core;

/// Whether the destructor of a lease waits for its release.
enum class disposal { blocking, background };

/// A granted lock, and the backend that must release it.
struct grant {
    std::shared_ptr<const backend_core> backend;
    std::string key;
    lock_id id;
    syncguard::fence fence;
    unix_time expires_at;
    milliseconds ttl;
    lease_clock::time_point sent_at;  ///< Not later than the execution by the store.
};

/// Thread safety: all members may be called concurrently, except `on_release_error`.
class lease_core : public std::enable_shared_from_this<lease_core> {
  public:
    lease_core(grant granted, disposal mode);
    lease_core(const lease_core&) = delete;
    lease_core& operator=(const lease_core&) = delete;
    ~lease_core();

    [[nodiscard]] const std::string& key() const noexcept { return key_; }
    [[nodiscard]] const lock_id& id() const noexcept { return id_; }
    [[nodiscard]] const syncguard::fence& fence() const noexcept { return fence_; }
    [[nodiscard]] unix_time expires_at() const noexcept;
    [[nodiscard]] lease_clock::time_point deadline() const noexcept;
    [[nodiscard]] lease_clock::time_point renewed_at() const noexcept;
    /// From the last renewal to the deadline.
    [[nodiscard]] milliseconds renewal_span() const noexcept;

    // If a loss handler or stop token exists, the first of these calls after the deadline reports
    // the loss.
    [[nodiscard]] bool valid() noexcept;
    [[nodiscard]] milliseconds remaining() noexcept;

    void on_release_error(release_error_handler handler, release_source source);

    release_result release(const call_options& options, std::stop_token stop);
    extend_result extend(const extend_options& options, std::stop_token stop);

    void start_release(const call_options& options, std::stop_token stop,
                       std::function<void(std::exception_ptr, release_result)> handler);
    void start_extend(const extend_options& options, std::stop_token stop,
                      std::function<void(std::exception_ptr, extend_result)> handler);

    void keep_alive(const keep_alive_options& options);
    [[nodiscard]] std::stop_token stop_token();
    void on_lost(loss_handler handler);
    [[nodiscard]] std::exception_ptr renewal_failure() noexcept;

    /// Starts one renewal in the background. The monitor is notified when it ends, also if it could
    /// not be started.
    void start_renewal(milliseconds ttl) noexcept;

    /// If the deadline has passed, ends a held lease and reports the loss. Answers that arrive
    /// later do not change that.
    void expire() noexcept;

    /// Ends the lease without releasing the lock.
    void detach() noexcept;

    /// Releases the lock if it is still held. Never throws. A failure goes to the release-error
    /// handler, at most once for a lease: on the calling thread if this waits for the release, else
    /// on a thread that runs only handlers.
    void dispose() noexcept;

    /// The same without waiting, also for a lease from a blocking call.
    void dispose_without_waiting() noexcept { dispose_in_background(); }

    /// Releases as `dispose` does, after the function of `lock()` has returned. Throws `lock_lost`
    /// if the lock was lost before.
    void finish_work();

  private:
    enum class state : std::uint8_t {
        held,
        releasing,
        /// A release failed: the store may have the lock or not. Another release is allowed.
        outcome_unknown,
        /// The deadline has passed, and a call or the monitor has noticed it: the store may have
        /// the lock or not. A release is allowed.
        expired,
        lost,  ///< The store answered that the lock is not held.
        gone,
    };

    [[nodiscard]] bool in_owning_process() const noexcept;
    [[nodiscard]] lease_clock::duration time_left() noexcept;
    bool begin_release() noexcept;
    void end_release(bool failed) noexcept;
    [[nodiscard]] std::optional<lease_deadline::ticket> begin_extend(milliseconds ttl);
    void end_extend(extend_result* result, lease_deadline::ticket extension) noexcept;
    [[nodiscard]] std::optional<loss_reason> note_extension(
        extend_result& result, lease_deadline::ticket extension) noexcept;
    void publish_deadline() noexcept;
    void notify_monitor_of_deadline() noexcept;
    [[nodiscard]] lease_monitor_entry* ensure_monitored();
    void end_monitoring() noexcept;
    void notify_monitor_of_loss(loss_reason reason) noexcept;
    void wait_for_handler() noexcept;
    [[nodiscard]] std::optional<bool> release_at_the_end() noexcept;
    void dispose_in_background() noexcept;
    void report_on_handler_thread(std::exception_ptr failure) noexcept;
    void report(const std::exception_ptr& failure) noexcept;

    std::shared_ptr<const backend_core> backend_;
    std::string key_;
    lock_id id_;
    syncguard::fence fence_;
    std::atomic<unix_time::rep> expires_at_;
    std::atomic<lease_clock::rep> deadline_;    ///< Copy of the value in `extensions_`.
    std::atomic<lease_clock::rep> renewed_at_;  ///< Likewise.
    std::atomic<state> state_{state::held};
    std::atomic<lease_monitor_entry*> monitor_entry_{nullptr};  ///< Owned.
    milliseconds ttl_;
    std::mutex extending_;
    lease_deadline extensions_;  ///< Guarded by `extending_`.
    /// The lease was destroyed while a release was in flight: if that release fails, another
    /// follows.
    std::atomic<bool> disposed_while_releasing_{false};
    std::atomic<bool> has_reported_{false};
    disposal disposal_;
    release_source source_ = release_source::disposal;
    std::uint32_t owning_process_;
    release_error_handler on_release_error_;
};

}  // namespace syncguard::detail
