#include "engine.hpp"

#include "../core/fence_limits.hpp"
#include "../core/longest_wait.hpp"
#include "mounts.hpp"
#include "schema.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

namespace syncguard::sqlite {

namespace {

constexpr storage_key_budget budget{.limit_bytes = 1700, .reserve_bytes = 0};

/// Expired locks are swept out this long after their end, so that whoever comes late to release or
/// extend one is still told "expired".
constexpr milliseconds sweep_guard = time_tolerance + std::chrono::minutes(1);

/// How many acquisitions come between two sweeps.
constexpr unsigned sweep_interval = 1024;

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

/// The file that a path means now. It must not come to mean another when the program changes its
/// folder, nor have a meaning of its own to SQLite (":memory:", "file:...").
std::filesystem::path fixed_path(const std::filesystem::path& given) {
    if (given.native().find('\0') != std::string::npos) {
        throw lock_error(error_code::invalid_argument, "the path of a lock file holds a NUL byte");
    }
    return std::filesystem::absolute(given);
}

bool is_live(const stored_lock& lock, const host_clock& clock) {
    return remaining_life(lock.period, clock.now()) > milliseconds(0);
}

/// Thrown and caught in here: the file was replaced while this call waited for it.
struct file_was_replaced {};

/// Likewise, while it was being opened: no lock was read or written.
struct file_was_replaced_at_open {};

/// Alone in the file that its path leads to.
class alone_in : public transaction {
  public:
    explicit alone_in(database& file) : transaction(file, kind::write), file_(file) {
        check_place();
        // The write lock is held: it cannot change before the commit.
        if (!has_current_schema(file_)) throw file_was_replaced{};
    }

    /// The files are compared before the commit, so that nothing is written to files that others
    /// do not use, and after it: a change during the commit would hide it from others.
    void commit() {
        file_.refuse_hard_links();
        check_place();
        transaction::commit();
        check_place();
    }

  private:
    void check_place() const {
        if (!file_.is_still_in_place()) throw file_was_replaced{};
    }

    database& file_;
};

}  // namespace

sqlite_engine::session::session(const std::filesystem::path& path, host_clock host,
                                const call_limits& limits)
    : clock(std::move(host)), file(path) {
    file.set_limits(limits);
    ensure_schema(file, clock);
    // Only a read of a table opens the side files.
    (void)file.query("SELECT count(*) FROM sqlite_schema");
    if (!file.remember_files()) throw file_was_replaced_at_open{};
    locks.emplace(file);
}

sqlite_engine::sqlite_engine(options store)
    : clock_(std::move(store.clock)),
      allow_remote_filesystem_(store.allow_remote_filesystem),
      owns_folder_(store.path.empty()),
      path_(owns_folder_ ? default_path() : fixed_path(store.path)),
      gate_(std::make_unique<gate>()),
      queue_(std::make_unique<call_queue>()),
      changes_(std::make_unique<file_changes>(path_)) {
    fork_guard::add(*this);
}

sqlite_engine::~sqlite_engine() {
    // Closed while a fork would still wait for it.
    gate_->enter();
    session_.reset();
    gate_->leave();
    fork_guard::remove(*this);
}

backend_capabilities sqlite_engine::capabilities() const noexcept {
    return {sqlite::capabilities::backend, sqlite::capabilities::supports_fencing,
            sqlite::capabilities::time_authority};
}

outcome sqlite_engine::perform(const request& what, const call_limits& limits) {
    const auto* const acquisition = std::get_if<acquire_request>(&what);
    if (acquisition == nullptr || acquisition->linger_until <= std::chrono::steady_clock::now()) {
        return perform_once(what, limits);
    }
    return acquire_when_free(*acquisition, limits);
}

outcome sqlite_engine::acquire_when_free(const acquire_request& what, const call_limits& limits) {
    while (true) {
        // First be told of changes, then look: nothing can happen in between.
        const auto seen = changes_->so_far();
        const auto began = lease_clock::now();
        outcome answer = perform_once(what, limits);
        answer.attempt_began = began;
        if (answer.ok || !seen) return answer;

        auto until = std::chrono::steady_clock::now() + bounded_wait(*answer.locked_for);
        until = std::min(until, what.linger_until);
        changes_->wait_for_more_than(*seen, until, limits.stop);
        if (limits.stop.stop_requested()) {
            throw lock_error(error_code::aborted, "the operation was cancelled while it waited");
        }
        if (std::chrono::steady_clock::now() >= what.linger_until) return answer;
    }
}

void sqlite_engine::check_time_left(const call_limits& limits) const {
    if (std::chrono::steady_clock::now() < limits.deadline) return;
    throw lock_error(error_code::network_timeout,
                     "the lock file '" + path_.string() +
                         "' or a file beside it was replaced again and again until the deadline");
}

outcome sqlite_engine::perform_once(const request& what, const call_limits& limits) {
    const passage alone(*gate_, limits);
    while (true) {
        try {
            session& open = open_session(limits);
            return std::visit([&](const auto& typed) { return apply(open, typed); }, what);
        } catch (const file_was_replaced&) {
            session_.reset();
            // Others may have been granted the lock on the files that count now.
            if (std::holds_alternative<release_request>(what) ||
                std::holds_alternative<extend_request>(what)) {
                return outcome::failed(failure_reason::not_found);
            }
            check_time_left(limits);
        } catch (const file_was_replaced_at_open&) {
            check_time_left(limits);
        } catch (const lock_error& failure) {
            if (session_ && session_->file.in_transaction()) session_.reset();
            // A newer version renames the tables: tell that instead of a missing table.
            if (session_ && failure.code() == error_code::internal) {
                (void)has_current_schema(session_->file);
            }
            throw;
        } catch (...) {
            // A transaction that could not even be rolled back would hold up everybody.
            if (session_ && session_->file.in_transaction()) session_.reset();
            throw;
        }
    }
}

void sqlite_engine::start(const request& what, const call_limits& limits,
                          completion done) noexcept {
    request at_once = what;
    // The queue's only thread cannot wait for a lock to become free.
    if (auto* const acquisition = std::get_if<acquire_request>(&at_once)) {
        acquisition->linger_until = {};
    }
    queue_->post(*this, at_once, limits, std::move(done));
}

void sqlite_engine::before_fork() {
    gate_->enter();
    session_.reset();
}

void sqlite_engine::after_fork_in_parent() {
    gate_->leave();
}

void sqlite_engine::after_fork_in_child() {
    // Threads of the parent may have been inside these: what they left cannot be used or destroyed.
    (void)gate_.release();
    gate_ = std::make_unique<gate>();
    (void)queue_.release();
    queue_ = std::make_unique<call_queue>();
    changes_.release()->abandon();
    changes_ = std::make_unique<file_changes>(path_);
}

sqlite_engine::session& sqlite_engine::open_session(const call_limits& limits) {
    // A file that was removed or replaced is not the one that others use now.
    if (session_ && !session_->file.is_still_in_place()) throw file_was_replaced{};
    if (session_) {
        session_->file.set_limits(limits);
    } else {
        if (owns_folder_) create_private_folder(path_.parent_path());
        check_mount(path_, allow_remote_filesystem_);
        session_ =
            std::make_unique<session>(path_, clock_ ? host_clock(clock_) : host_clock(), limits);
    }
    return *session_;
}

void sqlite_engine::sweep_now_and_then(session& open) {
    if (acquisitions_until_sweep_-- > 0) return;
    acquisitions_until_sweep_ = sweep_interval;
    host_time long_gone = open.clock.now();
    long_gone.boot_ms -= sweep_guard.count();
    if (open.locks->any_ended_before(long_gone)) open.locks->erase_ended_before(long_gone);
}

outcome sqlite_engine::apply(session& open, const acquire_request& what) {
    const std::string storage_key = make_storage_key("", what.key, budget);

    // A row with this id was written by this call, before the file was opened again.
    const auto life_of_other = [&](const std::optional<stored_lock>& held, const host_time& at) {
        return held && held->record.id != what.id ? remaining_life(held->period, at)
                                                  : milliseconds(0);
    };

    // Most attempts on a held lock end here: a read disturbs nobody and writes nothing.
    if (const auto life = life_of_other(open.locks->by_key(storage_key), open.clock.now());
        life > milliseconds(0)) {
        return outcome::locked(life);
    }

    alone_in alone(open.file);
    // The clock is read after any waiting, or the lock would begin in the past.
    const host_time at = open.clock.now();
    const unix_time wall_time = open.clock.wall_now();
    const auto held = open.locks->by_key(storage_key);
    if (const auto life = life_of_other(held, at); life > milliseconds(0)) {
        return outcome::locked(life);
    }
    const auto counter =
        open.locks->raise_fence(make_fence_key("", storage_key, budget), what.key, held);
    const stored_lock lock{.storage_key = storage_key,
                           .record = {.key = std::string(what.key),
                                      .id = what.id,
                                      .expires_at = wall_time + what.ttl,
                                      .acquired_at = wall_time,
                                      .fence = checked_fence(counter)},
                           .period = at.period(what.ttl)};
    open.locks->put(lock);
    sweep_now_and_then(open);
    alone.commit();
    return outcome::granted(lock.record.expires_at, lock.record.fence);
}

outcome sqlite_engine::apply(session& open, const release_request& what) {
    alone_in alone(open.file);
    const auto held = open.locks->by_id(what.id);
    if (!held || held->record.id != what.id) return outcome::failed(failure_reason::not_found);
    if (!is_live(*held, open.clock)) return outcome::failed(failure_reason::expired);
    open.locks->erase(*held);
    alone.commit();
    changes_->announce();
    return outcome::done();
}

outcome sqlite_engine::apply(session& open, const extend_request& what) {
    alone_in alone(open.file);
    const host_time at = open.clock.now();
    const auto held = open.locks->by_id(what.id);
    if (!held || held->record.id != what.id) return outcome::failed(failure_reason::not_found);
    if (remaining_life(held->period, at) <= milliseconds(0)) {
        return outcome::failed(failure_reason::expired);
    }
    const unix_time expires_at = open.clock.wall_now() + what.ttl;
    open.locks->set_period(*held, at.period(what.ttl), expires_at);
    alone.commit();
    return outcome::extended(expires_at);
}

outcome sqlite_engine::apply(session& open, const is_locked_request& what) {
    const auto held = open.locks->by_key(make_storage_key("", what.key, budget));
    return outcome::yes_or_no(held && is_live(*held, open.clock));
}

outcome sqlite_engine::apply(session& open, const key_lookup_request& what) {
    const auto held = open.locks->by_key(make_storage_key("", what.key, budget));
    if (!held || !is_live(*held, open.clock)) return outcome::nothing_found();
    return outcome::found(held->record);
}

outcome sqlite_engine::apply(session& open, const id_lookup_request& what) {
    const auto held = open.locks->by_id(what.id);
    if (!held || held->record.id != what.id || !is_live(*held, open.clock)) {
        return outcome::nothing_found();
    }
    return outcome::found(held->record);
}

backend::backend(options store, backend_options common)
    : basic_backend(std::make_shared<sqlite_engine>(std::move(store)), std::move(common)) {}

}  // namespace syncguard::sqlite
