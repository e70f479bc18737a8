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
class waiting_line;
}

namespace syncguard::detail {

struct call;

template <class Result>
using receiver = std::function<void(std::exception_ptr, Result)>;

/// A lock was granted, but the answer came when its time was over. It is released in the
/// background.
class grant_expired : public lock_error {
  public:
    using lock_error::lock_error;
};

/// Blocking and asynchronous members are two doors to the same preparation, engine and conclusion.
/// A blocking member throws `lock_error`; an asynchronous one delivers it, and never throws.
class backend_core : public std::enable_shared_from_this<backend_core> {
  public:
    /// `needs_fences`: the caller's type has fences, so the engine must, too.
    backend_core(std::shared_ptr<engine> store, backend_options options, bool needs_fences);
    backend_core(const backend_core&) = delete;
    backend_core& operator=(const backend_core&) = delete;
    ~backend_core();

    [[nodiscard]] const std::shared_ptr<engine>& store() const noexcept { return store_; }
    [[nodiscard]] const backend_options& options() const noexcept { return options_; }

    using lease_pointer = std::shared_ptr<lease_core>;

    /// Those who wait for locks of this store.
    [[nodiscard]] waiting_line& line() const noexcept { return *line_; }

    /// The lease is null when the key is locked by somebody else.
    struct attempt {
        lease_pointer lease;
        std::optional<milliseconds> locked_for;
    };
    /// Where the store tells when the lock becomes free, waits for that, until `linger_until`.
    [[nodiscard]] attempt acquire(std::string_view key, const acquire_options& options,
                                  std::stop_token stop,
                                  std::chrono::steady_clock::time_point linger_until = {}) const;
    // `key` is the lock's where that is known, else empty.
    release_result release(std::string_view id, std::string_view key, const call_options& options,
                           std::stop_token stop) const;
    extend_result extend(std::string_view id, std::string_view key, const extend_options& options,
                         std::stop_token stop) const;
    // A lease changes its state between the check and the request, so it makes the check itself: a
    // second check could refuse what has begun.
    release_result release(std::string_view id, std::string_view key, call_limits limits) const;
    extend_result extend(std::string_view id, std::string_view key, milliseconds ttl,
                         call_limits limits) const;
    /// Throws `lock_error` (internal) in a child process that ran no fork handlers.
    void check_process() const;
    /// The limits of a release that begins now. Throws `lock_error` for options and stop requests
    /// with which the engine is not asked at all.
    [[nodiscard]] call_limits check(const call_options& options, std::stop_token stop) const;
    /// Likewise of an extension.
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
                       receiver<lease_pointer> done) const noexcept;
    void start_release(std::string_view id, std::string_view key, const call_options& options,
                       std::stop_token stop, receiver<release_result> done) const noexcept;
    void start_release(std::string_view id, std::string_view key, call_limits limits,
                       receiver<release_result> done) const noexcept;
    void start_extend(std::string_view id, std::string_view key, const extend_options& options,
                      std::stop_token stop, receiver<extend_result> done) const noexcept;
    void start_extend(std::string_view id, std::string_view key, milliseconds ttl,
                      call_limits limits, receiver<extend_result> done) const noexcept;
    void start_is_locked(std::string_view key, const call_options& options, std::stop_token stop,
                         receiver<bool> done) const noexcept;
    void start_lookup_key(std::string_view key, const call_options& options, std::stop_token stop,
                          receiver<std::optional<lock_record>> done) const noexcept;
    void start_lookup_id(std::string_view id, const call_options& options, std::stop_token stop,
                         receiver<std::optional<lock_record>> done) const noexcept;

  private:
    [[nodiscard]] lease_pointer conclude_acquire(call& made, const outcome& answer,
                                                 disposal how_to_dispose) const;
    void release_in_background(const lock_id& id, std::string_view key) const;
    void report_later(std::exception_ptr failure, const lock_id& id,
                      std::shared_ptr<const std::string> key) const noexcept;
    void check_grant(const outcome& answer) const;
    [[nodiscard]] outcome perform(const call& made) const;
    template <class Result, class Prepare, class Conclude>
    void start(Prepare prepare, Conclude conclude, receiver<Result> done) const noexcept;

    std::shared_ptr<engine> store_;
    backend_options options_;
    std::unique_ptr<waiting_line> line_;
    const bool needs_fences_;
    const std::uint32_t process_;
};

}  // namespace syncguard::detail
