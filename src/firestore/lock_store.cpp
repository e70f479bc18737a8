#include "firestore/lock_store.hpp"

#include "core/warning.hpp"
#include "firestore/server_error.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <utility>

namespace syncguard::firestore {

namespace {

/// The limit of requests for the server's time before a refusal. Two answers are enough if they
/// agree; otherwise a third one may be needed.
constexpr int max_questions = 3;

/// The limit of comparisons of the clocks before the first grant. Each comparison halves the range
/// of the possible difference, which is a second and a round trip at first.
constexpr int max_comparisons = 4;

/// The versions that the commit of an acquisition requires, as a text that shows whether they have
/// changed.
std::string versions_of(const stored_pair& read) {
    return (read.lock ? read.lock->version : "none") + " " +
           (read.counter ? read.counter->version : "none") + " " +
           (read.former_lock ? read.former_lock->version : "none");
}

/// A release: removes the lock.
struct removal {
    lock_id id;

    [[nodiscard]] commit_request encode(const known_lock& of, unix_time /*now*/) {
        ends_at = of.expires_at;
        return encode_removal(of.name, of.version);
    }
    [[nodiscard]] static bool is_done_to(const lock_record& /*lock*/) { return false; }
    /// The outcome if the lock is gone after a commit of unknown outcome; nothing if that cannot be
    /// decided. Other clients may not remove a lock while it is live.
    [[nodiscard]] std::optional<outcome> if_gone(unix_time now, failure_reason /*reason*/) const {
        if (is_live(ends_at, now)) return outcome::done();
        return std::nullopt;
    }
    [[nodiscard]] static outcome success() { return outcome::done(); }
    [[nodiscard]] static std::optional<unix_time> lives_on_until() { return std::nullopt; }

    unix_time ends_at{};
};

/// An extension: changes the expiry of the lock.
struct extension {
    lock_id id;
    milliseconds ttl;

    [[nodiscard]] commit_request encode(const known_lock& of, unix_time now) {
        ends_at = now + ttl;
        // If a write changes nothing, the version stays the same, and an earlier extension that is
        // still in flight could be executed after this one. Any other write makes the earlier
        // extension fail.
        if (ends_at == of.expires_at) ends_at += milliseconds{1};
        return encode_extension(of.name, of.version, ends_at);
    }
    [[nodiscard]] bool is_done_to(const lock_record& lock) const {
        return lock.expires_at == ends_at;
    }
    [[nodiscard]] static std::optional<outcome> if_gone(unix_time /*now*/, failure_reason reason) {
        return outcome::failed(reason);
    }
    [[nodiscard]] outcome success() const { return outcome::extended(ends_at); }
    [[nodiscard]] std::optional<unix_time> lives_on_until() const { return ends_at; }

    unix_time ends_at{};
};

}  // namespace

lock_store::lock_store(service& server, const options& opts, const warning_handler& on_warning)
    : server_(server),
      clock_(opts.clock),
      names_(opts),
      cleanup_(opts.cleanup_in_is_locked),
      on_clock_skew_(opts.on_clock_skew),
      on_warning_(on_warning),
      random_(std::random_device{}()) {}

lock_store::awaitable<outcome> lock_store::acquire(const acquire_request& req,
                                                   net::call_context& ctx, commit_retry& retry) {
    const auto names = names_.of(req.key);
    while (true) {
        const auto began = lease_clock::now();
        const unix_time now = clock_();
        const auto found = co_await read_or_use_cache(names, req.key, retry, ctx);
        if (found.lock && found.lock->record.id == req.id) {
            // An earlier commit was executed, but its answer was lost.
            const auto& record = found.lock->record;
            known_lock cached{names.lock, found.lock->version, record.expires_at, found.counter};
            known_locks_.remember(req.id, std::move(cached));
            co_return outcome::granted(record.expires_at, record.fence);
        }
        const auto granted = grant_on(found, req, now);
        if (!granted) co_return outcome::locked(time_until_free(*blocking_lock(found, now), now));
        // Time has passed, and the lock's time would begin at the outdated `now`: start again.
        const bool waited = co_await compare_clocks(ctx);
        if (waited) continue;
        std::string versions = versions_of(found);
        retry.throw_if_hopeless(versions);
        co_await check_clock_skew(ctx);
        auto grant = encode_grant(names, found, *granted);
        const auto written = co_await commit(std::move(grant), std::move(versions), retry, ctx);
        if (!written.empty()) {
            // This answer may be the first that shows a wrong clock: then the grant is undone.
            co_await check_clock_skew(ctx);
            known_lock cached{names.lock, written.front(), granted->expires_at, std::nullopt};
            cached.counter = stored_counter{counter_of(granted->fence), written.at(1)};
            known_locks_.remember(req.id, std::move(cached));
            auto answer = outcome::granted(granted->expires_at, granted->fence);
            answer.attempt_started_at = began;
            co_return answer;
        }
        co_await ctx.sleep(retry.pause(random()));
    }
}

lock_store::awaitable<outcome> lock_store::release(const release_request& req,
                                                   net::call_context& ctx, commit_retry& retry) {
    return update_owned(removal{req.id}, req.key, ctx, retry);
}

lock_store::awaitable<outcome> lock_store::extend(const extend_request& req, net::call_context& ctx,
                                                  commit_retry& retry) {
    return update_owned(extension{req.id, req.ttl}, req.key, ctx, retry);
}

/// Finds the lock with an id, verifies that the lock is live, and changes it on condition that it
/// still has the version that was found.
template <class Change>
lock_store::awaitable<outcome> lock_store::update_owned(Change change, std::string_view key,
                                                        net::call_context& ctx,
                                                        commit_retry& retry) {
    while (true) {
        unix_time now = clock_();
        auto cached = retry.is_first() ? known_locks_.find(change.id) : std::nullopt;
        if (!cached || !is_live(cached->expires_at, now)) {
            const auto found = co_await find(change.id, key, ctx);
            // Another extension of this lock may have been sent after the read began, and executed
            // before the read. After its answer the lease counts the TTL of the present extension
            // from the time when the other one was sent. So the expiry that is stored must not
            // count from an earlier time.
            now = clock_();
            const auto chosen = choose_owned(found, change.id, now);
            if (chosen.is_ambiguous) {
                throw lock_error(error_code::internal,
                                 "several live locks have this id; none was touched");
            }
            if (chosen.lock == nullptr) {
                known_locks_.forget(change.id);
                if (!retry.unknown_outcome()) co_return outcome::failed(chosen.reason);
                if (auto known_end = change.if_gone(now, chosen.reason)) co_return *known_end;
                throw lock_error(*retry.unknown_outcome());
            }
            cached = {chosen.lock->name, chosen.lock->version, chosen.lock->record.expires_at,
                      std::nullopt};
            if (retry.unknown_outcome() && change.is_done_to(chosen.lock->record)) {
                known_locks_.remember(change.id, *cached);
                co_return change.success();
            }
            retry.throw_if_hopeless(cached->version);
        }
        if (change.lives_on_until()) co_await check_clock_skew(ctx);
        auto update = change.encode(*cached, now);
        std::string versions = cached->version;
        const auto written = co_await commit(std::move(update), std::move(versions), retry, ctx);
        known_locks_.forget(change.id);
        if (!written.empty()) {
            if (const auto until = change.lives_on_until()) {
                const bool refused = co_await refuses_clock(ctx);
                if (refused) {
                    // This answer was the first that showed the wrong clock. Other clients compare
                    // the written expiry with other clocks, so the holder must not rely on it.
                    co_await remove(cached->name, written.front(), ctx);
                    co_return outcome::failed(failure_reason::expired);
                }
                cached->version = written.front();
                cached->expires_at = *until;
                known_locks_.remember(change.id, *cached);
            } else if (cached->counter) {
                known_counters_.remember(cached->name, *cached->counter);
            }
            co_return change.success();
        }
        co_await ctx.sleep(retry.pause(random()));
    }
}

lock_store::awaitable<outcome> lock_store::is_locked(const is_locked_request& req,
                                                     net::call_context& ctx,
                                                     std::optional<stored_lock>& expired_lock) {
    const auto names = names_.of(req.key);
    const unix_time now = clock_();
    auto found = co_await read(names, req.key, false, ctx);
    const bool locked = blocking_lock(found, now) != nullptr;
    // If this host's clock is wrong, live locks could be removed.
    if (cleanup_ && !suspects_clock() && found.lock && may_be_cleaned_up(found.lock->record, now) &&
        may_begin_cleanup(names.lock)) {
        expired_lock = std::move(found.lock);
    }
    co_return outcome::boolean(locked);
}

lock_store::awaitable<outcome> lock_store::lookup(const key_lookup_request& req,
                                                  net::call_context& ctx) {
    const auto names = names_.of(req.key);
    const unix_time now = clock_();
    auto found = co_await read(names, req.key, false, ctx);
    for (auto* const each : {&found.lock, &found.former_lock}) {
        if (!*each || !is_live((*each)->record.expires_at, now)) continue;
        if (!is_lock_of((*each)->record, req.key)) continue;
        co_return outcome::found(std::move((*each)->record));
    }
    co_return outcome::nothing_found();
}

lock_store::awaitable<outcome> lock_store::lookup(const id_lookup_request& req,
                                                  net::call_context& ctx) {
    const unix_time now = clock_();
    const auto found = co_await search(req.id, ctx);
    const auto chosen = choose_owned(found, req.id, now);
    co_return chosen.lock == nullptr ? outcome::nothing_found()
                                     : outcome::found(chosen.lock->record);
}

lock_store::awaitable<void> lock_store::clean_up(const stored_lock& expired_lock,
                                                 net::call_context& ctx) {
    if (suspects_clock()) co_return;
    co_await remove(expired_lock.name, expired_lock.version, ctx);
}

/// Permits at most one removal of a key's lock in `longest_cleanup`, since many callers may call
/// `is_locked` at the same time.
bool lock_store::may_begin_cleanup(const std::string& name) {
    const auto now = std::chrono::steady_clock::now();
    if (const auto last = cleanups_.find(name); last && now - *last < longest_cleanup) return false;
    cleanups_.remember(name, now);
    return true;
}

/// Makes one attempt to remove a lock. If it fails, the lock ends with its TTL.
lock_store::awaitable<void> lock_store::remove(const std::string& name, const version& current,
                                               net::call_context& ctx) {
    commit_retry only_one;
    auto removal = encode_removal(name, current);
    std::string versions = current;
    try {
        (void)co_await commit(std::move(removal), std::move(versions), only_one, ctx);
    } catch (const lock_error&) {  // the lock ends with its TTL
    }
}

lock_store::awaitable<void> lock_store::undo(const lock_id& id, std::string_view key,
                                             net::call_context& ctx) {
    const auto names = names_.of(key);
    known_locks_.forget(id);
    commit_retry retry;
    while (true) {
        const auto found = co_await read(names, key, true, ctx);
        const bool is_granted = found.lock && found.lock->record.id == id;
        auto update = is_granted ? encode_removal(found.lock->name, found.lock->version)
                                 : encode_counter(names, found.counter, key, next_fence(found));
        std::string versions = versions_of(found);
        const auto written = co_await commit(std::move(update), std::move(versions), retry, ctx);
        if (!written.empty()) co_return;
        co_await ctx.sleep(retry.pause(random()));
    }
}

// Requests.

lock_store::awaitable<std::string> lock_store::call_or_throw(std::string_view method,
                                                             std::string body,
                                                             net::call_context& ctx) {
    auto answer = co_await server_.call(method, std::move(body), true, ctx);
    warn_on_clock_skew();
    constexpr unsigned ok = 200;
    if (answer.status != ok) {
        throw to_lock_error(answer.status, decode_error_status(answer.body), server_.server_name());
    }
    co_return std::move(answer.body);
}

lock_store::awaitable<stored_pair> lock_store::read(const document_names::pair& names,
                                                    std::string_view key, bool with_counter,
                                                    net::call_context& ctx) {
    std::string body = encode_read(names, with_counter);
    const auto answer = co_await call_or_throw("batchGet", std::move(body), ctx);
    auto found = decode_read(answer, names, with_counter);
    // The document belongs to another key, whose text is the hash of this key.
    if (found.former_lock && !is_lock_of(found.former_lock->record, key)) found.former_lock.reset();
    co_return found;
}

/// The stored documents of a key. In the first attempt, if this client has released the key, it
/// assumes that the key is free and does not read.
lock_store::awaitable<stored_pair> lock_store::read_or_use_cache(const document_names::pair& names,
                                                                 std::string_view key,
                                                                 const commit_retry& retry,
                                                                 net::call_context& ctx) {
    auto freed = retry.is_first() ? known_counters_.find(names.lock) : std::nullopt;
    known_counters_.forget(names.lock);
    if (freed) {
        stored_pair recalled;
        recalled.counter = std::move(freed);
        co_return recalled;
    }
    co_return co_await read(names, key, true, ctx);
}

/// The locks that may have this id: those of the key if the key is known, else those that a query
/// finds.
lock_store::awaitable<std::vector<stored_lock>> lock_store::find(const lock_id& id,
                                                                 std::string_view key,
                                                                 net::call_context& ctx) {
    if (key.empty()) co_return co_await search(id, ctx);
    const auto names = names_.of(key);
    auto read_now = co_await read(names, key, false, ctx);
    std::vector<stored_lock> found;
    for (auto* const each : {&read_now.lock, &read_now.former_lock})
        if (*each) found.push_back(std::move(**each));
    co_return found;
}

lock_store::awaitable<std::vector<stored_lock>> lock_store::search(const lock_id& id,
                                                                   net::call_context& ctx) {
    std::string body = encode_search(names_.locks_collection(), id);
    const auto answer = co_await call_or_throw("runQuery", std::move(body), ctx);
    auto found = decode_search(answer);
    if (found.size() > 1) warn_of_duplicates(found);
    co_return found;
}

lock_store::awaitable<std::vector<version>> lock_store::commit(commit_request batch,
                                                               std::string versions,
                                                               commit_retry& retry,
                                                               net::call_context& ctx) {
    net::http_response answer;
    std::optional<lock_error> lost;
    retry.begin();
    try {
        answer = co_await server_.call("commit", std::move(batch.body), false, ctx);
    } catch (const net::response_lost& error) {
        lost = error;
    } catch (const lock_error&) {
        retry.had_no_effect();
        throw;
    }
    if (lost) {
        retry.failed(commit_failure::response_lost, *std::move(lost), std::move(versions));
        co_return std::vector<version>();
    }
    warn_on_clock_skew();
    constexpr unsigned ok = 200;
    if (answer.status == ok) {
        try {
            co_return decode_commit(answer.body, batch.writes);
        } catch (const lock_error& error) {
            lost = error;
        }
        retry.failed(commit_failure::server_failed, *std::move(lost), std::move(versions));
        co_return std::vector<version>();
    }
    const auto status = decode_error_status(answer.body);
    auto error = to_lock_error(answer.status, status, server_.server_name());
    const bool refused = is_refusal(answer.status, status);
    if (refused && !is_conflict(status)) {
        retry.had_no_effect();
        throw lock_error(error);
    }
    const auto conflict =
        status == "ABORTED" ? commit_failure::contention : commit_failure::precondition;
    retry.failed(refused ? conflict : commit_failure::server_failed, std::move(error),
                 std::move(versions));
    co_return std::vector<version>();
}

// Warnings.

/// The message omits the hash of the lock id, from which most of the id can be computed.
void lock_store::warn_of_duplicates(const std::vector<stored_lock>& found) const {
    std::string keys;
    for (const auto& each : found)
        keys += (keys.empty() ? "" : ", ") + hash_key(each.record.key);
    warn_later(on_warning_, "several locks in " + server_.server_name() +
                                " have the same id: those of the keys with hashes " + keys +
                                ". Something else than SyncGuard writes to the collection");
}

void lock_store::warn_on_clock_skew() {
    if (!server_.clocks().value() && !server_.is_emulator() && !has_warned_of_no_time_) {
        has_warned_of_no_time_ = true;
        warn_later(on_warning_,
                   "the answers of " + server_.server_name() +
                       " do not tell the time: whether this host's clock is right cannot be "
                       "checked");
    }
    const auto skew = server_.clocks().confirmed();
    const bool is_wrong = skew >= skew_to_warn_of;
    if (is_wrong && !has_warned_of_clock_) {
        warn_later(on_warning_, "this host's clock differs from that of " + server_.server_name() +
                                    " by at least " + std::to_string(skew.count()) +
                                    " ms; locks need synchronised clocks: check NTP");
    }
    has_warned_of_clock_ = is_wrong;
}

/// Whether the latest estimate shows a wrong clock. The cause may be a single wrong answer.
bool lock_store::suspects_clock() const {
    const auto skew = server_.clocks().value();
    return skew && skew->proven() >= skew_to_refuse;
}

/// Whether a difference that leads to a refusal is neither proven nor excluded.
bool lock_store::may_have_wrong_clock() const {
    const auto skew = server_.clocks().value();
    return skew && !suspects_clock() &&
           (skew->at_least <= -skew_to_refuse || skew->at_most >= skew_to_refuse);
}

/// Called before the first lock is granted. One answer of the server leaves an uncertainty of a
/// second. So this waits for a moment at which an answer halves the uncertainty, asks the server
/// for the time, and repeats that until it is known whether the clock is wrong, at most
/// `max_comparisons` times: a long round trip may prevent a decision. Returns true if it has
/// waited.
lock_store::awaitable<bool> lock_store::compare_clocks(net::call_context& ctx) {
    if (on_clock_skew_ != firestore::on_clock_skew::refuse || has_compared_clocks_) co_return false;
    bool waited = false;
    for (int i = 0; i < max_comparisons && may_have_wrong_clock(); ++i) {
        waited = true;
        co_await ctx.sleep(pause_before_question(*server_.clocks().value(), clock_()));
        // An answer to another operation may have decided it meanwhile.
        if (!may_have_wrong_clock()) break;
        const bool has_time = co_await server_.ask_for_time(ctx);
        if (!has_time) break;
    }
    has_compared_clocks_ = server_.clocks().value().has_value();
    co_return waited;
}

/// Whether to refuse because of the clock. Before a refusal this asks the server for the time
/// again, until two consecutive answers show that the clock is wrong or one shows that it is right.
/// Otherwise a wrong estimate would never be corrected, since an extension is refused before
/// anything is sent.
lock_store::awaitable<bool> lock_store::refuses_clock(net::call_context& ctx) {
    if (on_clock_skew_ != firestore::on_clock_skew::refuse) co_return false;
    for (int questions = 0; questions < max_questions && suspects_clock(); ++questions) {
        if (questions > 0 && server_.clocks().confirmed() >= skew_to_refuse) break;
        const bool has_time = co_await server_.ask_for_time(ctx);
        if (!has_time) break;
    }
    co_return server_.clocks().confirmed() >= skew_to_refuse;
}

lock_store::awaitable<void> lock_store::check_clock_skew(net::call_context& ctx) {
    const bool refused = co_await refuses_clock(ctx);
    if (!refused) co_return;
    throw lock_error(error_code::service_unavailable,
                     "this host's clock differs from that of " + server_.server_name() +
                         " by at least " + std::to_string(server_.clocks().confirmed().count()) +
                         " ms: locks are refused until it is set; check NTP");
}

double lock_store::random() {
    return std::uniform_real_distribution<double>(0, 1)(random_);
}

}  // namespace syncguard::firestore
