/// The engine of lock files: decides on requests inside SQLite transactions.
#pragma once

#include "sqlite/call_queue.hpp"
#include "sqlite/database.hpp"
#include "sqlite/file_watcher.hpp"
#include "sqlite/host_clock.hpp"
#include "sqlite/interruptible_mutex.hpp"
#include "sqlite/lock_table.hpp"
#include "util/fork_guard.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/sqlite.hpp>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <variant>

namespace syncguard::sqlite {

/// All threads of a process share one connection, which one thread at a time uses: SQLite allows
/// only one writer anyway.
class sqlite_engine : public engine, private fork_participant {
  public:
    explicit sqlite_engine(options opts);
    ~sqlite_engine() override;

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    [[nodiscard]] bool supports_waiting() const noexcept override { return true; }
    /// A call that failed is not executed later.
    [[nodiscard]] bool executes_extensions_in_order() const noexcept override { return true; }
    [[nodiscard]] outcome execute(const request& req, const call_limits& limits) override;
    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept override;

  private:
    // SQLite records its file locks in process memory. A forked child inherits the records but not
    // the locks, and even a new connection in the child would rely on the records. So the
    // connection is closed before a fork, and opened again at the next use.
    void before_fork() override;
    void after_fork_in_parent() override;
    void after_fork_in_child() override;

    /// An open file, ready for use.
    struct session {
        session(const std::filesystem::path& path, host_clock clock, bool allow_remote_filesystem);

        /// Created for each session: a forked child may be in another time namespace.
        host_clock clock;
        database file;
        std::optional<lock_table> locks;
    };

    /// Why an attempt has no answer.
    enum class obstacle {
        busy,        ///< Another process uses the file.
        replaced,    ///< The path leads to other files than the open ones.
        needs_turn,  ///< A read could not answer it: it must write, and wait for its turn.
    };
    using attempt = std::variant<outcome, obstacle>;

    /// SQLite has no queue for the write lock: processes poll it. If one process writes without
    /// pause, others could poll in vain for seconds. So a process leaves a gap after a series of
    /// writes.
    class write_pacing {
      public:
        [[nodiscard]] bool is_gap_due();
        void leave_gap_if_due();
        void note_end_of_turn() { last_turn_ended_ = std::chrono::steady_clock::now(); }

      private:
        std::chrono::steady_clock::time_point burst_began_;
        std::chrono::steady_clock::time_point last_turn_ended_;
    };

    [[nodiscard]] outcome execute_once(const request& req, const call_limits& limits);
    [[nodiscard]] outcome acquire_when_free(const acquire_request& req, const call_limits& limits);
    /// Does not wait for other processes. An acquisition without a turn takes the turn if it is
    /// free, and keeps it.
    [[nodiscard]] attempt try_at_once(const request& req, const call_limits& limits,
                                      std::optional<interruptible_lock>& turn,
                                      const signals_blocked& signals);
    void pause(obstacle cause, int tries, precedence rank, const call_limits& limits) const;
    [[nodiscard]] session& open_session();
    void sweep_if_due(session& open) noexcept;
    [[nodiscard]] std::optional<outcome> answer_if_locked(session& open,
                                                          const acquire_request& req);

    outcome apply(session& open, const acquire_request& req);
    outcome apply(session& open, const release_request& req);
    outcome apply(session& open, const extend_request& req);
    outcome apply(session& open, const is_locked_request& req);
    outcome apply(session& open, const key_lookup_request& req);
    outcome apply(session& open, const id_lookup_request& req);

    const wall_clock clock_;
    const bool allow_remote_filesystem_;
    const bool owns_folder_;
    const std::filesystem::path path_;
    unsigned acquisitions_until_sweep_ = 0;
    /// The turn: writers queue for it. The writer that has it keeps it while it waits for other
    /// processes, without `connection_mutex_`.
    std::unique_ptr<interruptible_mutex> turn_mutex_;
    write_pacing pacing_;  ///< Guarded by `turn_mutex_`.
    /// Guards the connection. A call unlocks it before it waits for another process, so that
    /// lookups and forks do not wait as well.
    std::unique_ptr<interruptible_mutex> connection_mutex_;
    std::unique_ptr<session> session_;
    std::unique_ptr<call_queue> queue_;
    std::unique_ptr<file_watcher> watcher_;
};

}  // namespace syncguard::sqlite
