/// The asynchronous forms of all operations, for Boost.Asio completion tokens: a callback,
/// `use_future`, `use_awaitable`, `deferred`, ...
///
/// - Completion: the signature is `void(std::exception_ptr, Result)`; a failure is a `lock_error`.
///   The handler runs on its associated executor (Asio's system executor if it has none), never
///   inside the initiating call. If posting to that executor throws (for instance
///   `std::bad_alloc`), the handler is destroyed without being called, and an acquired lock is
///   released.
/// - Cancellation (any type) ends the call with `aborted`; an acquisition that is cancelled leaves
///   nothing locked.
/// - Lifetime: arguments are copied and need not outlive the call; the store is kept alive until
///   the handler has run. An execution context may be destroyed while calls are outstanding: their
///   handlers are destroyed with it, and locks that they acquired are released. If a destructor
///   begins a call while the context is being destroyed, the call has no handler, but is still sent
///   to the store.
/// - The destructor of a lease from these functions never blocks: the release goes on in the
///   background.
#pragma once

#include <syncguard/backend.hpp>
#include <syncguard/detail/async_call.hpp>

#include <boost/asio/async_result.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

namespace syncguard {

namespace detail {

template <class Result>
using async_signature = void(std::exception_ptr, Result);

/// Runs `start(stop, receiver)` under a completion token; `convert` makes the public result.
template <class Result, class Start, class Convert, class Token>
auto initiate(Start start, Convert convert, Token&& token) {
    return boost::asio::async_initiate<Token, async_signature<Result>>(
        [](auto handler, Start begin, Convert to_result) {
            auto call = async_call<decltype(handler), Result>::make(std::move(handler));
            begin(call->stop(), [call, to_result](std::exception_ptr failure, auto value) {
                Result result{};
                try {
                    if (!failure) result = to_result(std::move(value));
                } catch (...) {
                    failure = std::current_exception();
                }
                call->complete(std::move(failure), std::move(result));
            });
        },
        token, std::move(start), std::move(convert));
}

inline constexpr auto unchanged = [](auto value) { return value; };

}  // namespace detail

/// Asynchronous `basic_backend::acquire`. Result: `acquire_result`.
template <lock_backend B, boost::asio::completion_token_for<detail::async_signature<
                              acquire_result<typename B::capabilities_type>>>
                              Token>
auto async_acquire(const B& backend, std::string_view key, const acquire_options& options,
                   Token&& token) {
    using capabilities = typename B::capabilities_type;
    return detail::initiate<acquire_result<capabilities>>(
        [core = detail::access::core(backend).shared_from_this(), key = std::string(key), options](
            std::stop_token stop, auto handler) {
            core->start_acquire(key, options, std::move(stop), std::move(handler));
        },
        [](auto lease) { return detail::access::result<capabilities>(std::move(lease)); },
        std::forward<Token>(token));
}

/// Asynchronous `basic_backend::release`. Result: `release_result`.
template <lock_backend B,
          boost::asio::completion_token_for<detail::async_signature<release_result>> Token>
auto async_release(const B& backend, std::string_view lock_id, const call_options& options,
                   Token&& token) {
    return detail::initiate<release_result>(
        [core = detail::access::core(backend).shared_from_this(), id = std::string(lock_id),
         options](std::stop_token stop, auto handler) {
            core->start_release(id, {}, options, std::move(stop), std::move(handler));
        },
        detail::unchanged, std::forward<Token>(token));
}

/// Asynchronous `lease::release`. Result: `release_result`.
template <capability_set Capabilities,
          boost::asio::completion_token_for<detail::async_signature<release_result>> Token>
auto async_release(lease<Capabilities>& lease, const call_options& options, Token&& token) {
    return detail::initiate<release_result>(
        [core = detail::access::core(lease).shared_from_this(), options](std::stop_token stop,
                                                                         auto handler) {
            core->start_release(options, std::move(stop), std::move(handler));
        },
        detail::unchanged, std::forward<Token>(token));
}

/// Asynchronous `basic_backend::extend`. Result: `extend_result`.
template <lock_backend B,
          boost::asio::completion_token_for<detail::async_signature<extend_result>> Token>
auto async_extend(const B& backend, std::string_view lock_id, const extend_options& options,
                  Token&& token) {
    return detail::initiate<extend_result>(
        [core = detail::access::core(backend).shared_from_this(), id = std::string(lock_id),
         options](std::stop_token stop, auto handler) {
            core->start_extend(id, {}, options, std::move(stop), std::move(handler));
        },
        detail::unchanged, std::forward<Token>(token));
}

/// Asynchronous `lease::extend`. Result: `extend_result`.
template <capability_set Capabilities,
          boost::asio::completion_token_for<detail::async_signature<extend_result>> Token>
auto async_extend(lease<Capabilities>& lease, const extend_options& options, Token&& token) {
    return detail::initiate<extend_result>(
        [core = detail::access::core(lease).shared_from_this(), options](std::stop_token stop,
                                                                         auto handler) {
            core->start_extend(options, std::move(stop), std::move(handler));
        },
        detail::unchanged, std::forward<Token>(token));
}

/// Asynchronous `basic_backend::is_locked`. Result: `bool`.
template <lock_backend B, boost::asio::completion_token_for<detail::async_signature<bool>> Token>
auto async_is_locked(const B& backend, std::string_view key, const call_options& options,
                     Token&& token) {
    return detail::initiate<bool>(
        [core = detail::access::core(backend).shared_from_this(), key = std::string(key), options](
            std::stop_token stop, auto handler) {
            core->start_is_locked(key, options, std::move(stop), std::move(handler));
        },
        detail::unchanged, std::forward<Token>(token));
}

/// Asynchronous `basic_backend::lookup` by key. Result: `std::optional<lock_info>`.
template <lock_backend B, boost::asio::completion_token_for<detail::async_signature<
                              std::optional<lock_info<typename B::capabilities_type>>>>
                              Token>
auto async_lookup(const B& backend, key_lookup query, const call_options& options, Token&& token) {
    using capabilities = typename B::capabilities_type;
    return detail::initiate<std::optional<lock_info<capabilities>>>(
        [core = detail::access::core(backend).shared_from_this(), key = std::string(query.key),
         options](std::stop_token stop, auto handler) {
            core->start_lookup_key(key, options, std::move(stop), std::move(handler));
        },
        [](const auto& record) { return detail::access::sanitized<capabilities>(record); },
        std::forward<Token>(token));
}

/// Asynchronous `basic_backend::lookup` by lock id. Result: `std::optional<lock_info>`.
template <lock_backend B, boost::asio::completion_token_for<detail::async_signature<
                              std::optional<lock_info<typename B::capabilities_type>>>>
                              Token>
auto async_lookup(const B& backend, ownership_lookup query, const call_options& options,
                  Token&& token) {
    using capabilities = typename B::capabilities_type;
    return detail::initiate<std::optional<lock_info<capabilities>>>(
        [core = detail::access::core(backend).shared_from_this(), id = std::string(query.lock_id),
         options](std::stop_token stop, auto handler) {
            core->start_lookup_id(id, options, std::move(stop), std::move(handler));
        },
        [](const auto& record) { return detail::access::sanitized<capabilities>(record); },
        std::forward<Token>(token));
}

}  // namespace syncguard
