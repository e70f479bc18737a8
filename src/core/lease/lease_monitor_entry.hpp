/// State of a lease that is renewed or whose loss is reported. Most leases have none.
#pragma once

#include "util/handler_threads.hpp"

#include <syncguard/loss.hpp>
#include <syncguard/options.hpp>
#include <syncguard/time.hpp>

#include <boost/intrusive/set_hook.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

namespace syncguard {

namespace detail {
class backend_core;
class lease_core;
}  // namespace detail

/// Contains all memory that scheduling renewals and reporting a loss need, so that neither can fail
/// for lack of memory.
struct lease_monitor_entry final : boost::intrusive::set_base_hook<>, handler_task {
    explicit lease_monitor_entry(detail::lease_core& monitored) noexcept : lease(monitored) {}

    /// Reports the loss, or destroys the detached members of a lease.
    void run() noexcept override;

    detail::lease_core& lease;  ///< Owns this entry.

    // Guarded by the monitor.
    lease_clock::time_point due{};
    milliseconds renewal_ttl{0};  ///< Zero: the lease is only watched.
    /// Keeps the store's I/O independent of callers while the lease is renewed.
    std::shared_ptr<const void> io_thread;
    lease_clock::time_point retry_not_before{};
    std::exception_ptr renewal_failure;  ///< Of the last renewal.
    bool renewal_under_way = false;
    bool over = false;  ///< Released, detached or lost.

    // Guarded by the notifier.
    std::optional<loss> lost;
    std::shared_ptr<detail::lease_core> kept_until_notified;
    std::stop_source stop{std::nostopstate};  ///< Created by the first call of `stop_token`.
    loss_handler handler;
    std::thread::id notifying_thread;  ///< The thread that reports the loss now.
    bool handler_is_due = false;       ///< Stop was requested: the handler is called in any case.
    bool closed = false;               ///< No further report starts.

    /// Members of a lease that was destroyed on the monitor's thread. Their destructors may block,
    /// so another thread runs them.
    struct detached_members {
        std::shared_ptr<const detail::backend_core> backend;
        release_error_handler on_release_error;
    };
    std::optional<detached_members> to_destroy;
};

}  // namespace syncguard
