/// The part of a backend that does not depend on its capabilities: checks arguments, sets
/// deadlines, asks the engine, turns answers into results. Not part of the API.
#pragma once

#include <syncguard/detail/lease_core.hpp>
#include <syncguard/engine.hpp>
#include <syncguard/options.hpp>
#include <syncguard/result.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace syncguard {
class wait_queue;
}

namespace syncguard::detail {

struct prepared_call;

template <class Result>
using receiver = std::function<void(std::exception_ptr, Result)>;

/// A lock was granted, but the answer came after the lease's deadline. The lock is released in the
/// background.
class grant_expired : public lock_error {
  public:
    using lock_error::lock_error;
};

/// Blocking and asynchronous members share the preparation of requests and the conversion of
/// answers. A blocking member throws `lock_error`; an asynchronous one delivers it, and never
/// throws.
class backend_core : public std::enable_shared_from_this<backend_core> {
  public:
    /// `needs_fences`: the typed backend has fences, so the engine must have them.
    backend_core(std::shared_ptr<engine> backing_engine, backend_options options,
                 bool needs_fences);
    backend_core(const backend_core&) = delete;
    backend_core& operator=(const backend_core&) = delete;
    ~backend_core();

    [[nodiscard]] const std::shared_ptr<engine>& backing_engine() const noexcept {
        return backing_engine_;
    }
    [[nodiscard]] const backend_options& options() const noexcept { return options_; }

    using lease_pointer = std::shared_ptr<lease_core>;

    /// The callers that wait for locks of this store.
    [[nodiscard]] wait_queue& waiters() const noexcept { return *waiters_; }

    /// The lease is null if another client holds the lock.
    struct attempt {
        lease_pointer lease;
        std::optional<milliseconds> free_within;
    };
    /// If the engine supports waiting, it waits for a locked key until `wait_until`.
    [[nodiscard]] attempt acquire(std::string_view key, const acquire_options& options,
                                  std::stop_token stop,
                                  std::chrono::steady_clock::time_point wait_until = {}) const;
    // `key` is the key of the lock if it is known, else empty.
    release_result release(std::string_view id, std::string_view key, const call_options& options,
                           std::stop_token stop) const;
    extend_result extend(std::string_view id, std::string_view key, const extend_options& options,
                         std::stop_token stop) const;
    // For leases, without checks: a lease calls `check` itself before it changes its state. A
    // second check after that could refuse a release or extension that has begun.
    release_result release(std::string_view id, std::string_view key, call_limits limits) const;
    extend_result extend(std::string_view id, std::string_view key, milliseconds ttl,
                         call_limits limits) const;
    /// Throws `lock_error` (internal) in a child process that ran no fork handlers.
    void check_process() const;
    /// The limits of a release that begins now. Throws `lock_error` if the options or a stop
    /// request forbid the call of the engine.
    [[nodiscard]] call_limits check(const call_options& options, std::stop_token stop) const;
    /// The same for an extension.
    [[nodiscard]] call_limits check(const extend_options& options, std::stop_token stop) const;
    [[nodiscard]] bool is_locked(std::string_view key, const call_options& options,
                                 std::stop_token stop) const;
    [[nodiscard]] std::optional<lock_record> lookup_key(std::string_view key,
                                                        const call_options& options,
                                                        std::stop_token stop) const;
    [[nodiscard]] std::optional<lock_record> lookup_id(std::string_view id,
                                                       const call_options& options,
                                                       std::stop_token stop) const;

    void start_acquire(std::string_view key, const acquire_options& options, std::stop_token stop,
                       receiver<lease_pointer> handler) const noexcept;
    void start_release(std::string_view id, std::string_view key, const call_options& options,
                       std::stop_token stop, receiver<release_result> handler) const noexcept;
    void start_release(std::string_view id, std::string_view key, call_limits limits,
                       receiver<release_result> handler) const noexcept;
    void start_extend(std::string_view id, std::string_view key, const extend_options& options,
                      std::stop_token stop, receiver<extend_result> handler) const noexcept;
    void start_extend(std::string_view id, std::string_view key, milliseconds ttl,
                      call_limits limits, receiver<extend_result> handler) const noexcept;
    void start_is_locked(std::string_view key, const call_options& options, std::stop_token stop,
                         receiver<bool> handler) const noexcept;
    void start_lookup_key(std::string_view key, const call_options& options, std::stop_token stop,
                          receiver<std::optional<lock_record>> handler) const noexcept;
    void start_lookup_id(std::string_view id, const call_options& options, std::stop_token stop,
                         receiver<std::optional<lock_record>> handler) const noexcept;

  private:
    [[nodiscard]] lease_pointer to_acquire_result(prepared_call& call, const outcome& answer,
                                                  disposal mode) const;
    void release_in_background(const lock_id& id, std::string_view key) const;
    void report_later(std::exception_ptr failure, const lock_id& id,
                      std::shared_ptr<const std::string> key) const noexcept;
    void check_grant(const outcome& answer) const;
    [[nodiscard]] outcome execute(const prepared_call& call) const;
    template <class Result, class Prepare, class Convert>
    void async_execute(Prepare prepare, Convert convert, receiver<Result> handler) const noexcept;

    std::shared_ptr<engine> backing_engine_;
    backend_options options_;
    std::unique_ptr<wait_queue> waiters_;
    const bool needs_fences_;
    const std::uint32_t process_;
};

}  // namespace syncguard::detail
