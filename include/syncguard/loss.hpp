/// `loss_handler`, `lock_lost`: how the loss of a held lock is reported.
///
/// A lock is lost when the lease's deadline passes without a renewal, or when the store answers
/// that the lock is no longer held. A loss is final: no late answer makes the lease valid again.
///
/// - Time and thread: threads of the library report a loss. They exist only in processes that use
///   `on_lost`, `stop_token` or `keep_alive`. They report at the latest when the lease's own
///   deadline passes, whatever the state of the network (within a second after the machine was
///   suspended); `valid()` is false even before the report.
/// - How often: once for each lease. After `release()`, `detach()` or the destructor has begun, no
///   loss is reported, but a handler that is already running, or whose stop token was already
///   requested, goes on. The destructor of a lease from a blocking call waits for that handler,
///   unless the destructor itself runs on a thread that calls handlers, even for another lease.
/// - Handlers of different leases may run at the same time, and none waits until another one has
///   returned: if all threads are busy, another is started. If several leases are lost together,
///   stop is requested on all their stop tokens before any handler runs. Handlers never delay
///   renewals. An exception from a handler is swallowed; a `std::stop_callback` must not throw.
/// - Fork: in a child process the parent's leases are not renewed and their losses not reported;
///   the parent goes on.
#pragma once

#include <syncguard/error.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

namespace syncguard {

enum class loss_reason : std::uint8_t {
    /// The time of the lease passed. The store may still have the lock.
    expired,
    /// The store answered that the lock is not held: a client released it by its id, or the store
    /// lost it. Another client may hold it already.
    not_held,
};

/// "expired" or "not-held".
[[nodiscard]] std::string_view to_string(loss_reason reason) noexcept;

struct loss {
    loss_reason reason{};
    /// Why the last renewal failed; null if it did not fail.
    std::exception_ptr cause;
};

/// Receives the loss of a lock.
using loss_handler = std::function<void(const loss& event)>;

/// Thrown by `lock()` if the lock was lost while its function ran, after an attempt to release it:
/// another holder may have worked at the same time as the function. `code()` is `internal`,
/// `cause()` the last failure of a renewal.
class lock_lost : public lock_error {
  public:
    lock_lost(loss_reason reason, const std::string& message, error_context context = {},
              std::exception_ptr cause = nullptr);

    [[nodiscard]] loss_reason reason() const noexcept { return reason_; }

  private:
    loss_reason reason_;
};

}  // namespace syncguard
