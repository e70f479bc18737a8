/// Keeps SQLite connections from crossing a fork.
///
/// SQLite keeps book of its file locks in process memory. A child inherits the book but not the
/// locks, and even a connection that it opens itself would trust it. So no connection may be open
/// at the moment of the fork.
#pragma once

namespace syncguard::sqlite {

class sqlite_engine;

class fork_guard {
  public:
    static void add(sqlite_engine& engine);
    static void remove(sqlite_engine& engine) noexcept;
};

}  // namespace syncguard::sqlite
