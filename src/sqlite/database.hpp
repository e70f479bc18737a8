/// Wrapper of SQLite: one connection, prepared statements, transactions, errors that name the file.
/// Knows nothing about locks.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace syncguard::sqlite {

class database;

/// A prepared statement. Bind with `with`, then call `step` until it returns false; the execution's
/// destructor resets the statement.
class statement {
  public:
    statement(database& owner, std::string_view sql);

    /// One execution of a statement: holds the bound values and the current row.
    class execution {
      public:
        execution(const execution&) = delete;
        execution& operator=(const execution&) = delete;
        ~execution();

        /// True if there is a row.
        bool step();
        [[nodiscard]] std::int64_t integer(int column) const noexcept;
        /// Valid until the next step.
        [[nodiscard]] std::string_view text(int column) const noexcept;

      private:
        friend class statement;
        explicit execution(statement& stmt) noexcept : stmt_(stmt) {}
        statement& stmt_;
    };

    /// Starts an execution with `values` bound in order. Text is not copied: it must outlive the
    /// execution.
    template <class... Values>
    [[nodiscard]] execution with(const Values&... values) {
        int index = 0;
        (bind(++index, values), ...);
        return execution(*this);
    }

    /// Executes the statement and ignores its rows.
    template <class... Values>
    void run(const Values&... values) {
        auto running = with(values...);
        while (running.step()) {
        }
    }

  private:
    struct finalizer {
        void operator()(sqlite3_stmt* handle) const noexcept;
    };

    void bind(int index, std::int64_t value);
    void bind(int index, std::string_view value);

    database* owner_;
    std::unique_ptr<sqlite3_stmt, finalizer> handle_;
};

/// Thrown by all members that use the file if another process locks it. Nothing has been changed.
/// The members never wait.
struct file_is_busy {};

/// An open database file. Not thread-safe: one caller at a time.
class database {
  public:
    /// Opens or creates the file. Throws `lock_error`.
    explicit database(std::filesystem::path path);
    database(const database&) = delete;
    database& operator=(const database&) = delete;
    ~database();

    void execute(const std::string& sql);
    /// The first column of the first row, as text.
    [[nodiscard]] std::string query(const std::string& sql);

    /// `PRAGMA user_version`.
    [[nodiscard]] std::int64_t schema_version();

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// The path of the open file without symbolic links: the side files are beside it.
    [[nodiscard]] std::string real_path() const;

    /// Stores the device and inode of the file, by the given path, and of `-wal` and `-shm` beside
    /// it. Call it when all three are open. False if the paths lead to other files than the open
    /// ones. Throws `lock_error` if this process still has removed side files open.
    [[nodiscard]] bool remember_files();
    /// Whether the paths still lead to the files of `remember_files`.
    [[nodiscard]] bool is_same_file() const noexcept;
    /// Throws `lock_error` if the file has hard links: SQLite would keep side files for each name.
    void refuse_hard_links() const;

    /// Throws `file_is_busy`, or the `lock_error` for an SQLite result code; its message names the
    /// file.
    [[noreturn]] void fail(int result_code) const;

    [[nodiscard]] bool in_transaction() const noexcept;

  private:
    friend class statement;
    friend class transaction;

    struct closer {
        void operator()(sqlite3* handle) const noexcept;
    };

    [[nodiscard]] int system_reason() const;

    struct file_id {
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        auto operator<=>(const file_id&) const = default;
    };
    struct file_ids {
        file_id main;
        file_id wal;
        file_id shm;
        bool operator==(const file_ids&) const = default;
    };
    /// A missing file has the inode 0.
    [[nodiscard]] file_ids current_files() const noexcept;
    [[nodiscard]] static file_id identify(const char* path) noexcept;
    [[nodiscard]] static bool are_open(const file_ids& files);

    // SQLite shares the open -shm of a file among all connections of a process, by the inode of the
    // main file. If one connection has a removed -shm open, a new connection would use the removed
    // -shm, too.
    class open_files;

    std::filesystem::path path_;
    std::string wal_path_;
    std::string shm_path_;
    std::optional<file_ids> files_;
    std::unique_ptr<sqlite3, closer> handle_;
    std::optional<statement> begin_read_;
    std::optional<statement> begin_write_;
    std::optional<statement> commit_;
    std::optional<statement> rollback_;
    std::optional<statement> user_version_;
};

/// Rolls back in its destructor unless it was committed.
class transaction {
  public:
    enum class kind {
        read,   ///< A snapshot of the file from the first read on.
        write,  ///< Holds the write lock from the beginning.
    };

    transaction(database& file, kind mode);
    transaction(const transaction&) = delete;
    transaction& operator=(const transaction&) = delete;
    ~transaction();

    void commit();

  private:
    database& file_;
};

}  // namespace syncguard::sqlite
