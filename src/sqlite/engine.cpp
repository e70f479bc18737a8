#include "sqlite/engine.hpp"

#include "core/fence_limits.hpp"
#include "sqlite/mounts.hpp"
#include "sqlite/schema.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace syncguard::sqlite {

namespace {

constexpr storage_key_budget budget{.limit_bytes = 1700, .reserve_bytes = 0};

/// Expired locks are erased this long after their end, so that until then a late release or
/// extension is answered with "expired".
constexpr milliseconds sweep_guard = time_tolerance + std::chrono::minutes(1);

/// The number of acquisitions between two sweeps. It is less than the number of rows that a sweep
/// erases, so that expired locks cannot accumulate.
constexpr unsigned sweep_interval = 64;
static_assert(sweep_interval < lock_table::max_erased_at_once);

/// Creates the folders of the default file that are missing, for this user only.
void create_private_folder(const std::filesystem::path& folder) {
    if (::mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) return;
    if (errno == ENOENT && folder.has_parent_path() && folder.parent_path() != folder) {
        create_private_folder(folder.parent_path());
        if (::mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) return;
    }
    const int reason = errno;
    const bool forbidden = reason == EACCES || reason == EPERM || reason == EROFS;
    throw lock_error(forbidden ? error_code::auth_failed : error_code::service_unavailable,
                     "cannot create the folder '" + folder.string() +
                         "' for the default lock file (" + std::generic_category().message(reason) +
                         "); set XDG_STATE_HOME or name a file (sqlite:/path/to/locks.db)");
}

/// The absolute path. A relative path would lead to another file when the program changes its
/// working folder, and some have a special meaning for SQLite (":memory:", "file:...").
std::filesystem::path fixed_path(const std::filesystem::path& given) {
    if (given.native().find('\0') != std::string::npos) {
        throw lock_error(error_code::invalid_argument, "the path of a lock file holds a NUL byte");
    }
    std::error_code failed;
    auto absolute = std::filesystem::absolute(given, failed);
    if (!failed) return absolute;
    throw lock_error(error_code::invalid_argument,
                     "the lock file '" + given.string() +
                         "' is relative to the working folder of this process, which cannot be "
                         "found (" +
                         failed.message() +
                         "); name the file by an absolute path, or start the program in a folder "
                         "that exists");
}

bool is_live(const stored_lock& lock, const host_clock& clock) {
    return remaining_life(lock.period, clock.now()) > milliseconds(0);
}

precedence rank_of(const request& req) noexcept {
    if (std::holds_alternative<extend_request>(req)) return precedence::extension;
    if (std::holds_alternative<release_request>(req)) return precedence::release;
    return precedence::other;
}

bool begins_with_a_write(const request& req) noexcept {
    return rank_of(req) != precedence::other;
}

/// Internal: the open file is no longer the file at its path.
struct file_was_replaced {};

/// Internal: the file was replaced while it was opened; no lock was read or written.
struct file_was_replaced_at_open {};

/// A write transaction on the file that is at its path now.
class write_transaction : public transaction {
  public:
    explicit write_transaction(database& file) : transaction(file, kind::write), file_(file) {
        check_place();
        // While the write lock is held, the schema cannot change.
        if (!has_current_schema(file_)) throw file_was_replaced{};
    }

    /// Checks before the commit whether the files are still those at their paths, so that nothing
    /// is written to files that other processes do not use. Checks again after the commit: if a
    /// file was replaced meanwhile, other processes cannot see the changes.
    void commit() {
        file_.refuse_hard_links();
        check_place();
        transaction::commit();
        check_place();
    }

  private:
    void check_place() const {
        if (!file_.is_same_file()) throw file_was_replaced{};
    }

    database& file_;
};

}  // namespace

sqlite_engine::session::session(const std::filesystem::path& path, host_clock host,
                                bool allow_remote_filesystem)
    : clock(std::move(host)), file(path) {
    // A file system may have been mounted, or a link changed, since the path was checked the first
    // time.
    check_mount(file.real_path(), allow_remote_filesystem);
    ensure_schema(file, clock);
    // SQLite opens the side files only when a table is read.
    (void)file.query("SELECT count(*) FROM sqlite_schema");
    if (!file.remember_files()) throw file_was_replaced_at_open{};
    locks.emplace(file);
}

sqlite_engine::sqlite_engine(options opts)
    : clock_(std::move(opts.clock)),
      allow_remote_filesystem_(opts.allow_remote_filesystem),
      owns_folder_(opts.path.empty()),
      path_(owns_folder_ ? default_path() : fixed_path(opts.path)),
      turn_mutex_(std::make_unique<interruptible_mutex>()),
      connection_mutex_(std::make_unique<interruptible_mutex>()),
      queue_(std::make_unique<call_queue>()),
      watcher_(std::make_unique<file_watcher>(path_)) {
    fork_guard::add(*this);
}

sqlite_engine::~sqlite_engine() {
    // The session is closed before `remove`, while forks still wait for the connection mutex.
    connection_mutex_->lock();
    session_.reset();
    connection_mutex_->unlock();
    fork_guard::remove(*this);
}

backend_capabilities sqlite_engine::capabilities() const noexcept {
    return {sqlite::capabilities::backend, sqlite::capabilities::supports_fencing,
            sqlite::capabilities::time_authority};
}

outcome sqlite_engine::execute(const request& req, const call_limits& limits) {
    const auto* const acquisition = std::get_if<acquire_request>(&req);
    if (acquisition == nullptr || acquisition->wait_until <= std::chrono::steady_clock::now()) {
        return execute_once(req, limits);
    }
    return acquire_when_free(*acquisition, limits);
}

outcome sqlite_engine::acquire_when_free(const acquire_request& req, const call_limits& limits) {
    while (true) {
        // Subscribe to changes first, then try: no change is missed in between.
        const auto seen = watcher_->version();
        const auto began = lease_clock::now();
        outcome answer = execute_once(req, limits);
        answer.attempt_started_at = began;
        if (answer.ok || !seen) return answer;

        // If the folder was replaced, changes in the new folder are not reported before the next
        // call of `version`.
        constexpr milliseconds longest_pause = std::chrono::seconds{1};
        auto until =
            std::chrono::steady_clock::now() + std::min(*answer.free_within, longest_pause);
        until = std::min(until, req.wait_until);
        watcher_->wait_for_change(*seen, until, limits.stop);
        if (limits.stop.stop_requested()) {
            throw lock_error(error_code::aborted, "the operation was cancelled while it waited");
        }
        if (std::chrono::steady_clock::now() >= req.wait_until) return answer;
    }
}

outcome sqlite_engine::execute_once(const request& req, const call_limits& limits) {
    // Without this, a signal handler could run while this thread has the turn, the connection or
    // the file's write lock, and renewals would wait for the handler.
    const signals_blocked signals;
    std::optional<interruptible_lock> turn;
    if (!begins_with_a_write(req)) {
        attempt first = try_at_once(req, limits, turn, signals);
        if (auto* const answer = std::get_if<outcome>(&first)) return std::move(*answer);
    }
    if (!turn) turn.emplace(*turn_mutex_, limits, rank_of(req), &signals);
    pacing_.leave_gap_if_due();
    for (int tries = 0;; ++tries) {
        attempt next = try_at_once(req, limits, turn, signals);
        if (auto* const answer = std::get_if<outcome>(&next)) return std::move(*answer);
        pause(std::get<obstacle>(next), tries, rank_of(req), limits);
        if (signals.any_pending()) {
            turn.reset();
            signals.receive_pending();
            turn.emplace(*turn_mutex_, limits, rank_of(req), &signals);
        } else {
            turn->yield_to_higher_ranks(limits);
        }
    }
}

sqlite_engine::attempt sqlite_engine::try_at_once(const request& req, const call_limits& limits,
                                                  std::optional<interruptible_lock>& turn,
                                                  const signals_blocked& signals) {
    // All other writers wait for the call that has the turn, so it has precedence over lookups, and
    // receives no signals while it waits.
    const interruptible_lock lock(*connection_mutex_, limits,
                                  turn ? precedence::extension : precedence::other,
                                  turn ? nullptr : &signals);
    try {
        session& open = open_session();
        const auto* const acquisition = std::get_if<acquire_request>(&req);
        if (acquisition != nullptr && !turn) {
            if (auto answer = answer_if_locked(open, *acquisition)) return std::move(*answer);
            if (!turn_mutex_->try_lock()) return obstacle::needs_turn;
            turn.emplace(*turn_mutex_, std::adopt_lock, rank_of(req), &signals);
            if (pacing_.is_gap_due()) return obstacle::needs_turn;
        }
        outcome answer = std::visit([&](const auto& typed) { return apply(open, typed); }, req);
        if (acquisition != nullptr && answer.ok) sweep_if_due(open);
        if (turn) pacing_.note_end_of_turn();
        return answer;
    } catch (const file_is_busy&) {
        if (session_ && session_->file.in_transaction()) session_.reset();
        return obstacle::busy;
    } catch (const file_was_replaced&) {
        session_.reset();
        // Another client may have been granted the lock on the new files.
        if (begins_with_a_write(req)) return outcome::failed(failure_reason::not_found);
        return obstacle::replaced;
    } catch (const file_was_replaced_at_open&) {
        return obstacle::replaced;
    } catch (const lock_error& failure) {
        if (session_ && session_->file.in_transaction()) session_.reset();
        // A newer version of SyncGuard may have renamed the tables. `has_current_schema` throws an
        // error that says so.
        if (session_ && failure.code() == error_code::internal) {
            try {
                (void)has_current_schema(session_->file);
            } catch (const file_is_busy&) {  // the original failure is reported
            }
        }
        throw;
    } catch (...) {
        // A transaction that could not be rolled back would block all other writers.
        if (session_ && session_->file.in_transaction()) session_.reset();
        throw;
    }
}

namespace {

/// A process that has written without pause for this time leaves a gap (`write_pacing`).
constexpr auto longest_burst = std::chrono::milliseconds{50};
constexpr auto gap = std::chrono::microseconds{500};

}  // namespace

bool sqlite_engine::write_pacing::is_gap_due() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_turn_ended_ >= gap) burst_began_ = now;
    return now - burst_began_ >= longest_burst;
}

void sqlite_engine::write_pacing::leave_gap_if_due() {
    if (!is_gap_due()) return;
    std::this_thread::sleep_for(gap);
    burst_began_ = std::chrono::steady_clock::now();
}

/// Waits for a short time that grows with each try. Throws if the deadline has passed or a stop is
/// requested.
void sqlite_engine::pause(obstacle cause, int tries, precedence rank,
                          const call_limits& limits) const {
    using std::chrono::microseconds;
    constexpr microseconds shortest{50};
    // An extension polls often enough to find the gaps that other processes leave (`write_pacing`).
    const microseconds longest{rank == precedence::extension ? 250 : 5'000};
    const microseconds wanted = std::min(longest, shortest * (1 << std::min(tries, 10)));

    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock guard(mutex);
    never.wait_until(guard, limits.stop,
                     std::min(limits.deadline, std::chrono::steady_clock::now() + wanted),
                     [] { return false; });
    if (limits.stop.stop_requested()) {
        throw lock_error(error_code::aborted,
                         "the operation was cancelled while other processes used the lock file '" +
                             path_.string() + "'");
    }
    if (std::chrono::steady_clock::now() < limits.deadline) return;
    throw lock_error(error_code::network_timeout,
                     cause == obstacle::busy
                         ? "other processes kept the lock file '" + path_.string() +
                               "' busy until the deadline; try again or allow more time"
                         : "the lock file '" + path_.string() +
                               "' or a file beside it was replaced again and again until the "
                               "deadline");
}

void sqlite_engine::async_execute(const request& req, const call_limits& limits,
                                  completion handler) noexcept {
    request at_once = req;
    // A call that waits for a release would block the calls behind it in the queue.
    if (auto* const acquisition = std::get_if<acquire_request>(&at_once)) {
        acquisition->wait_until = {};
    }
    queue_->post(*this, at_once, limits, std::move(handler));
}

void sqlite_engine::before_fork() {
    connection_mutex_->lock();
    session_.reset();
}

void sqlite_engine::after_fork_in_parent() {
    connection_mutex_->unlock();
}

void sqlite_engine::after_fork_in_child() {
    // Threads of the parent may have been using these objects during the fork, so they can be
    // neither used nor destroyed.
    (void)turn_mutex_.release();
    turn_mutex_ = std::make_unique<interruptible_mutex>();
    (void)connection_mutex_.release();
    connection_mutex_ = std::make_unique<interruptible_mutex>();
    (void)queue_.release();
    queue_ = std::make_unique<call_queue>();
    watcher_.release()->abandon();
    watcher_ = std::make_unique<file_watcher>(path_);
}

sqlite_engine::session& sqlite_engine::open_session() {
    // Other processes use the file at the path, not a file that was removed or replaced.
    if (session_ && !session_->file.is_same_file()) throw file_was_replaced{};
    if (!session_) {
        if (owns_folder_) create_private_folder(path_.parent_path());
        check_mount(path_, allow_remote_filesystem_);
        session_ = std::make_unique<session>(path_, clock_ ? host_clock(clock_) : host_clock(),
                                             allow_remote_filesystem_);
    }
    return *session_;
}

/// Called after a grant, so it must not throw: if it fails, a later sweep erases the locks.
void sqlite_engine::sweep_if_due(session& open) noexcept {
    if (acquisitions_until_sweep_-- > 0) return;
    acquisitions_until_sweep_ = sweep_interval;
    try {
        host_time long_gone = open.clock.now();
        long_gone.boot_ms -= sweep_guard.count();
        if (!open.locks->any_ended_before(long_gone)) return;
        write_transaction txn(open.file);
        open.locks->erase_some_ended_before(long_gone);
        txn.commit();
    } catch (...) {
        if (open.file.in_transaction()) session_.reset();
    }
}

namespace {

/// How long a lock of another client is still live. A row with the id of the request does not
/// count: an earlier attempt of the same call wrote it, before the file was opened again.
milliseconds life_of_other(const std::optional<stored_lock>& held, const acquire_request& req,
                           const host_time& at) {
    if (!held || held->record.id == req.id) return milliseconds(0);
    return remaining_life(held->period, at);
}

}  // namespace

/// Answers most attempts on a locked key by a read, which does not block writers.
std::optional<outcome> sqlite_engine::answer_if_locked(session& open, const acquire_request& req) {
    const auto held = open.locks->by_key(make_storage_key("", req.key, budget));
    const auto life = life_of_other(held, req, open.clock.now());
    if (life > milliseconds(0)) return outcome::locked(life);
    return std::nullopt;
}

outcome sqlite_engine::apply(session& open, const acquire_request& req) {
    const std::string storage_key = make_storage_key("", req.key, budget);
    write_transaction txn(open.file);
    // Read the clock after waiting for the write lock; otherwise the lock would begin in the past.
    const host_time at = open.clock.now();
    const unix_time wall_time = open.clock.wall_now();
    const auto held = open.locks->by_key(storage_key);
    if (const auto life = life_of_other(held, req, at); life > milliseconds(0)) {
        return outcome::locked(life);
    }
    const auto counter =
        open.locks->raise_fence(make_fence_key("", storage_key, budget), req.key, held);
    const stored_lock lock{.storage_key = storage_key,
                           .record = {.key = std::string(req.key),
                                      .id = req.id,
                                      .expires_at = wall_time + req.ttl,
                                      .acquired_at = wall_time,
                                      .fence = checked_fence(counter)},
                           .period = at.period(req.ttl)};
    open.locks->put(lock);
    txn.commit();
    return outcome::granted(lock.record.expires_at, lock.record.fence);
}

outcome sqlite_engine::apply(session& open, const release_request& req) {
    write_transaction txn(open.file);
    const auto held = open.locks->by_id(req.id);
    if (!held || held->record.id != req.id) return outcome::failed(failure_reason::not_found);
    if (!is_live(*held, open.clock)) return outcome::failed(failure_reason::expired);
    open.locks->erase(*held);
    txn.commit();
    watcher_->notify_watchers();
    return outcome::done();
}

outcome sqlite_engine::apply(session& open, const extend_request& req) {
    write_transaction txn(open.file);
    const host_time at = open.clock.now();
    const auto held = open.locks->by_id(req.id);
    if (!held || held->record.id != req.id) return outcome::failed(failure_reason::not_found);
    if (remaining_life(held->period, at) <= milliseconds(0)) {
        return outcome::failed(failure_reason::expired);
    }
    const unix_time expires_at = open.clock.wall_now() + req.ttl;
    open.locks->set_period(*held, at.period(req.ttl), expires_at);
    txn.commit();
    return outcome::extended(expires_at);
}

outcome sqlite_engine::apply(session& open, const is_locked_request& req) {
    const auto held = open.locks->by_key(make_storage_key("", req.key, budget));
    return outcome::boolean(held && is_live(*held, open.clock));
}

outcome sqlite_engine::apply(session& open, const key_lookup_request& req) {
    const auto held = open.locks->by_key(make_storage_key("", req.key, budget));
    if (!held || !is_live(*held, open.clock)) return outcome::nothing_found();
    return outcome::found(held->record);
}

outcome sqlite_engine::apply(session& open, const id_lookup_request& req) {
    const auto held = open.locks->by_id(req.id);
    if (!held || held->record.id != req.id || !is_live(*held, open.clock)) {
        return outcome::nothing_found();
    }
    return outcome::found(held->record);
}

backend::backend(options opts, backend_options common)
    : basic_backend(std::make_shared<sqlite_engine>(std::move(opts)), std::move(common)) {}

}  // namespace syncguard::sqlite
