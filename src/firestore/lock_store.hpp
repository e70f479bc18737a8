/// The lock operations. Each is a sequence of requests (optimistic concurrency): if another
/// client's commit was faster, the operation starts again.
#pragma once

#include "firestore/bounded_cache.hpp"
#include "firestore/commit_retry.hpp"
#include "firestore/document_names.hpp"
#include "firestore/documents.hpp"
#include "firestore/lock_rules.hpp"
#include "firestore/service.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/firestore.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::firestore {

/// The time limit of the removal of an ended lock, and the minimum interval between removals.
inline constexpr std::chrono::seconds longest_cleanup{10};

/// Cached state of a lock that was granted by this client. With it the lock can be released or
/// extended without reading it first.
struct known_lock {
    std::string name;
    firestore::version version;
    unix_time expires_at;
    std::optional<stored_counter> counter;
};

/// Thread safety: none; used by the thread that runs the context. All operations throw
/// `lock_error`.
class lock_store {
  public:
    template <class Result>
    using awaitable = boost::asio::awaitable<Result>;

    /// All references must outlive the object.
    lock_store(service& server, const options& opts, const warning_handler& on_warning);

    [[nodiscard]] service& server() noexcept { return server_; }

    // `retry` is new. After a failure, or an acquisition that found the key locked, it says whether
    // the change may have been made, or may still be.
    [[nodiscard]] awaitable<outcome> acquire(const acquire_request& req, net::call_context& ctx,
                                             commit_retry& retry);
    [[nodiscard]] awaitable<outcome> release(const release_request& req, net::call_context& ctx,
                                             commit_retry& retry);
    [[nodiscard]] awaitable<outcome> extend(const extend_request& req, net::call_context& ctx,
                                            commit_retry& retry);
    /// `expired_lock` receives the lock to clean up, if there is one.
    [[nodiscard]] awaitable<outcome> is_locked(const is_locked_request& req, net::call_context& ctx,
                                               std::optional<stored_lock>& expired_lock);
    [[nodiscard]] awaitable<outcome> lookup(const key_lookup_request& req, net::call_context& ctx);
    [[nodiscard]] awaitable<outcome> lookup(const id_lookup_request& req, net::call_context& ctx);

    /// Removes a lock that is unchanged since it was read.
    [[nodiscard]] awaitable<void> clean_up(const stored_lock& expired_lock, net::call_context& ctx);

    /// Makes sure that an acquisition leaves no lock, also if its commit is executed later. Removes
    /// its lock; if there is none, raises the fence counter, so that the commit, which requires the
    /// counter's version, fails. This skips a fence.
    [[nodiscard]] awaitable<void> undo(const lock_id& id, std::string_view key,
                                       net::call_context& ctx);

  private:
    [[nodiscard]] awaitable<std::string> call_or_throw(std::string_view method, std::string body,
                                                       net::call_context& ctx);
    [[nodiscard]] awaitable<stored_pair> read(const document_names::pair& names,
                                              std::string_view key, bool with_counter,
                                              net::call_context& ctx);
    [[nodiscard]] awaitable<std::vector<stored_lock>> find(const lock_id& id, std::string_view key,
                                                           net::call_context& ctx);
    [[nodiscard]] awaitable<std::vector<stored_lock>> search(const lock_id& id,
                                                             net::call_context& ctx);

    /// Returns the versions that were written; none after a failure, which `retry` has recorded.
    [[nodiscard]] awaitable<std::vector<version>> commit(commit_request batch, std::string versions,
                                                         commit_retry& retry,
                                                         net::call_context& ctx);
    [[nodiscard]] awaitable<stored_pair> read_or_use_cache(const document_names::pair& names,
                                                           std::string_view key,
                                                           const commit_retry& retry,
                                                           net::call_context& ctx);
    [[nodiscard]] bool may_begin_cleanup(const std::string& name);
    [[nodiscard]] awaitable<void> remove(const std::string& name, const version& current,
                                         net::call_context& ctx);
    template <class Change>
    [[nodiscard]] awaitable<outcome> update_owned(Change change, std::string_view key,
                                                  net::call_context& ctx, commit_retry& retry);

    void warn_of_duplicates(const std::vector<stored_lock>& found) const;
    void warn_on_clock_skew();
    [[nodiscard]] bool suspects_clock() const;
    [[nodiscard]] bool may_have_wrong_clock() const;
    [[nodiscard]] awaitable<bool> compare_clocks(net::call_context& ctx);
    [[nodiscard]] awaitable<bool> refuses_clock(net::call_context& ctx);
    [[nodiscard]] awaitable<void> check_clock_skew(net::call_context& ctx);
    [[nodiscard]] double random();

    service& server_;
    const wall_clock clock_;
    const document_names names_;
    const bool cleanup_;
    const firestore::on_clock_skew on_clock_skew_;
    const warning_handler& on_warning_;
    // Caches. An entry may be outdated: then the precondition of the write fails, and the documents
    // are read.
    bounded_cache<lock_id, known_lock> known_locks_;
    /// The counters of locks that this client released, by the names of the locks: such a key is
    /// most likely still free.
    bounded_cache<std::string, stored_counter> known_counters_;
    /// When the last removal of an ended lock began, by the name of the lock.
    bounded_cache<std::string, std::chrono::steady_clock::time_point> cleanups_;
    std::minstd_rand random_;
    bool has_compared_clocks_ = false;
    bool has_warned_of_clock_ = false;
    bool has_warned_of_no_time_ = false;
};

}  // namespace syncguard::firestore
