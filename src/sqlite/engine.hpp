/// The store in a file: decides who gets a lock, inside transactions of SQLite.
#pragma once

#include "../core/fork_guard.hpp"
#include "call_queue.hpp"
#include "database.hpp"
#include "file_changes.hpp"
#include "gate.hpp"
#include "host_clock.hpp"
#include "lock_table.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/sqlite.hpp>

#include <filesystem>
#include <memory>
#include <optional>

namespace syncguard::sqlite {

/// All threads of a process share one connection, one at a time: SQLite has one writer anyway.
class sqlite_engine : public engine, private fork_participant {
  public:
    explicit sqlite_engine(options store);
    ~sqlite_engine() override;

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    [[nodiscard]] bool tells_when_free() const noexcept override { return true; }
    [[nodiscard]] outcome perform(const request& what, const call_limits& limits) override;
    void start(const request& what, const call_limits& limits, completion done) noexcept override;

  private:
    // SQLite keeps book of its file locks in process memory. A child inherits the book but not the
    // locks, and even a connection that it opens itself would trust it. So the connection is closed
    // before a fork, and opened again at the next use.
    void before_fork() override;
    void after_fork_in_parent() override;
    void after_fork_in_child() override;

    /// An open file, ready for use.
    struct session {
        session(const std::filesystem::path& path, host_clock clock, const call_limits& limits);

        /// Read anew with each session: a forked child may be in another time namespace.
        host_clock clock;
        database file;
        std::optional<lock_table> locks;
    };

    [[nodiscard]] outcome perform_once(const request& what, const call_limits& limits);
    void check_time_left(const call_limits& limits) const;
    [[nodiscard]] outcome acquire_when_free(const acquire_request& what, const call_limits& limits);
    [[nodiscard]] session& open_session(const call_limits& limits);
    void sweep_now_and_then(session& open);

    outcome apply(session& open, const acquire_request& what);
    outcome apply(session& open, const release_request& what);
    outcome apply(session& open, const extend_request& what);
    outcome apply(session& open, const is_locked_request& what);
    outcome apply(session& open, const key_lookup_request& what);
    outcome apply(session& open, const id_lookup_request& what);

    const wall_clock clock_;
    const bool allow_remote_filesystem_;
    const bool owns_folder_;
    const std::filesystem::path path_;
    unsigned acquisitions_until_sweep_ = 0;
    std::unique_ptr<gate> gate_;
    std::unique_ptr<session> session_;
    std::unique_ptr<call_queue> queue_;
    std::unique_ptr<file_changes> changes_;
};

}  // namespace syncguard::sqlite
