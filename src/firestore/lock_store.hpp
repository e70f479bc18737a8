/// The operations on locks, each a sequence of requests that is repeated from its beginning where
/// somebody else was faster.
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

/// The time limit of the removal of an ended lock, and the least time between the beginnings of two
/// removals.
inline constexpr std::chrono::seconds longest_cleanup{10};

/// What a lock that was granted here looks like in the store, as far as is known. It lets the lock
/// be released or extended without reading it first.
struct known_lock {
    std::string name;
    firestore::version version;
    unix_time expires_at;
    std::optional<stored_counter> counter;
};

/// Thread safety: none; used by the thread that runs the context. Everything throws `lock_error`.
class lock_store {
  public:
    template <class Result>
    using awaitable = boost::asio::awaitable<Result>;

    /// All references outlive it.
    lock_store(service& server, const options& store, const warning_handler& on_warning);

    [[nodiscard]] service& server() noexcept { return server_; }

    // `so_far` is fresh. It tells after a failure, and after an acquisition that found the key
    // locked, whether the change may have been made, or may yet be.
    [[nodiscard]] awaitable<outcome> acquire(const acquire_request& what, net::call_context& ctx,
                                             attempts& so_far);
    [[nodiscard]] awaitable<outcome> release(const release_request& what, net::call_context& ctx,
                                             attempts& so_far);
    [[nodiscard]] awaitable<outcome> extend(const extend_request& what, net::call_context& ctx,
                                            attempts& so_far);
    /// `remains` receives the lock that is to be cleaned up, if there is one.
    [[nodiscard]] awaitable<outcome> is_locked(const is_locked_request& what,
                                               net::call_context& ctx,
                                               std::optional<stored_lock>& remains);
    [[nodiscard]] awaitable<outcome> lookup(const key_lookup_request& what, net::call_context& ctx);
    [[nodiscard]] awaitable<outcome> lookup(const id_lookup_request& what, net::call_context& ctx);

    /// Removes a lock that is still as it was read.
    [[nodiscard]] awaitable<void> clean_up(const stored_lock& remains, net::call_context& ctx);

    /// Makes sure that an acquisition leaves no lock, also if its commit is executed later: removes
    /// its lock, or raises the fence counter, because the commit demands the counter's version. A
    /// fence is left out then.
    [[nodiscard]] awaitable<void> undo(const lock_id& id, std::string_view key,
                                       net::call_context& ctx);

  private:
    [[nodiscard]] awaitable<std::string> answer_to(std::string_view method, std::string body,
                                                   net::call_context& ctx);
    [[nodiscard]] awaitable<stored_pair> read(const document_names::pair& names,
                                              std::string_view key, bool with_counter,
                                              net::call_context& ctx);
    [[nodiscard]] awaitable<std::vector<stored_lock>> find(const lock_id& id, std::string_view key,
                                                           net::call_context& ctx);
    [[nodiscard]] awaitable<std::vector<stored_lock>> search(const lock_id& id,
                                                             net::call_context& ctx);

    /// The versions that were written; none after a setback, which `so_far` has been told of.
    [[nodiscard]] awaitable<std::vector<version>> commit(commit_request what, std::string versions,
                                                         attempts& so_far, net::call_context& ctx);
    [[nodiscard]] awaitable<stored_pair> recall_or_read(const document_names::pair& names,
                                                        std::string_view key,
                                                        const attempts& so_far,
                                                        net::call_context& ctx);
    [[nodiscard]] bool may_begin_cleanup(const std::string& name);
    [[nodiscard]] awaitable<void> remove(const std::string& name, const version& current,
                                         net::call_context& ctx);
    template <class Change>
    [[nodiscard]] awaitable<outcome> change_owned(Change change, std::string_view key,
                                                  net::call_context& ctx, attempts& so_far);

    void warn_of_duplicates(const std::vector<stored_lock>& found) const;
    void mind_the_clock();
    [[nodiscard]] bool suspects_clock() const;
    [[nodiscard]] bool may_have_wrong_clock() const;
    [[nodiscard]] awaitable<bool> compare_clocks(net::call_context& ctx);
    [[nodiscard]] awaitable<bool> refuses_clock(net::call_context& ctx);
    [[nodiscard]] awaitable<void> refuse_with_wrong_clock(net::call_context& ctx);
    [[nodiscard]] double random();

    service& server_;
    const wall_clock clock_;
    const document_names names_;
    const bool cleanup_;
    const firestore::on_clock_skew on_clock_skew_;
    const warning_handler& on_warning_;
    // If something has changed since, the precondition of a write fails, and it is read after all:
    // what is remembered need not be true.
    bounded_memory<lock_id, known_lock> held_;
    /// The counters of locks that were released here, by the names of the locks: such a key is most
    /// likely still free.
    bounded_memory<std::string, stored_counter> freed_;
    /// The time at which the last removal of an ended lock began, by the name of the lock.
    bounded_memory<std::string, std::chrono::steady_clock::time_point> cleanups_;
    std::minstd_rand random_;
    bool has_compared_clocks_ = false;
    bool has_warned_of_clock_ = false;
    bool has_warned_of_no_time_ = false;
};

}  // namespace syncguard::firestore
