#include "sqlite/database.hpp"

#include <syncguard/error.hpp>

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

namespace syncguard::sqlite {

statement::statement(database& owner, std::string_view sql) : owner_(&owner) {
    sqlite3_stmt* handle = nullptr;
    const int result =
        sqlite3_prepare_v3(owner.handle_.get(), sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
    handle_.reset(handle);
    if (result != SQLITE_OK) owner.fail(result);
}

void statement::finalizer::operator()(sqlite3_stmt* handle) const noexcept {
    sqlite3_finalize(handle);
}

void statement::bind(int index, std::int64_t value) {
    const int result = sqlite3_bind_int64(handle_.get(), index, value);
    if (result != SQLITE_OK) owner_->fail(result);
}

void statement::bind(int index, std::string_view value) {
    const int result = sqlite3_bind_text(handle_.get(), index, value.data(),
                                         static_cast<int>(value.size()), SQLITE_STATIC);
    if (result != SQLITE_OK) owner_->fail(result);
}

statement::execution::~execution() {
    sqlite3_reset(stmt_.handle_.get());
}

bool statement::execution::step() {
    const int result = sqlite3_step(stmt_.handle_.get());
    if (result == SQLITE_ROW) return true;
    if (result == SQLITE_DONE) return false;
    stmt_.owner_->fail(result);
}

std::int64_t statement::execution::integer(int column) const noexcept {
    return sqlite3_column_int64(stmt_.handle_.get(), column);
}

std::string_view statement::execution::text(int column) const noexcept {
    const auto* bytes = sqlite3_column_text(stmt_.handle_.get(), column);
    const int length = sqlite3_column_bytes(stmt_.handle_.get(), column);
    if (bytes == nullptr) return {};
    return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length)};
}

database::database(std::filesystem::path path) : path_(std::move(path)) {
    refuse_hard_links();
    sqlite3* handle = nullptr;
    const int result = sqlite3_open_v2(
        path_.c_str(), &handle,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
        nullptr);
    handle_.reset(handle);
    if (handle == nullptr) throw std::bad_alloc();
    if (result != SQLITE_OK) fail(result);
    begin_read_.emplace(*this, "BEGIN");
    begin_write_.emplace(*this, "BEGIN IMMEDIATE");
    commit_.emplace(*this, "COMMIT");
    rollback_.emplace(*this, "ROLLBACK");
    user_version_.emplace(*this, "PRAGMA user_version");
}

void database::closer::operator()(sqlite3* handle) const noexcept {
    sqlite3_close_v2(handle);
}

/// The side files of each main file that this process has open. Used only by engines that hold
/// their connection mutex, so this mutex is never locked during a fork.
class database::open_files {
  public:
    /// False if another connection has other side files of the same main file open.
    static bool add(const file_ids& files) {
        const std::lock_guard guard(mutex());
        const auto [first, last] = all().equal_range(files.main);
        if (std::any_of(first, last, [&](const auto& open) { return open.second != files; })) {
            return false;
        }
        all().emplace(files.main, files);
        return true;
    }
    static void remove(const file_ids& files) noexcept {
        const std::lock_guard guard(mutex());
        const auto [first, last] = all().equal_range(files.main);
        const auto found =
            std::find_if(first, last, [&](const auto& open) { return open.second == files; });
        if (found != last) all().erase(found);
    }

  private:
    static std::mutex& mutex() {
        static auto* const instance = new std::mutex;
        return *instance;
    }
    static std::multimap<file_id, file_ids>& all() {
        static auto* const instance = new std::multimap<file_id, file_ids>;
        return *instance;
    }
};

database::~database() {
    if (!files_) return;
    // When it closes, SQLite copies the log into the main file and deletes the side files by name.
    // If other processes have created new side files since, that would decrease fences and delete
    // the new files.
    if (identify(wal_path_.c_str()) != files_->wal || identify(shm_path_.c_str()) != files_->shm) {
        sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    }
    for (auto* closing : {&begin_read_, &begin_write_, &commit_, &rollback_, &user_version_})
        closing->reset();
    handle_.reset();
    open_files::remove(*files_);
}

std::int64_t database::schema_version() {
    auto reading = user_version_->with();
    return reading.step() ? reading.integer(0) : 0;
}

database::file_id database::identify(const char* path) noexcept {
    struct stat status {};
    if (::stat(path, &status) != 0) return {};
    return {status.st_dev, status.st_ino};
}

database::file_ids database::current_files() const noexcept {
    return {.main = identify(path_.c_str()),
            .wal = identify(wal_path_.c_str()),
            .shm = identify(shm_path_.c_str())};
}

void database::refuse_hard_links() const {
    struct stat status {};
    if (::stat(path_.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    if (status.st_nlink <= 1) return;
    throw lock_error(error_code::invalid_argument,
                     "the lock file '" + path_.string() +
                         "' has more than one name (hard link): SQLite keeps a write-ahead log for "
                         "each, and their users would not see each other's locks. Remove the "
                         "others or use a symbolic link");
}

/// Whether this process has all three files open.
bool database::are_open(const file_ids& files) {
    bool main = false;
    bool wal = false;
    bool shm = false;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
        const file_id open = identify(entry.path().c_str());
        main = main || open == files.main;
        wal = wal || open == files.wal;
        shm = shm || open == files.shm;
    }
    return main && wal && shm;
}

std::string database::real_path() const {
    return sqlite3_db_filename(handle_.get(), "main");
}

bool database::remember_files() {
    const std::string resolved = real_path();
    wal_path_ = resolved + "-wal";
    shm_path_ = resolved + "-shm";
    const file_ids found = current_files();
    // Opening the file may take long: meanwhile the files at these paths may have been replaced.
    if (found.main != identify(resolved.c_str()) || !are_open(found)) {
        sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
        return false;
    }
    if (found.wal == file_id{} || found.shm == file_id{} || !open_files::add(found)) {
        sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
        throw lock_error(error_code::service_unavailable,
                         "files beside the lock file '" + path_.string() +
                             "' were removed while this process uses them; try again when its "
                             "other backends have noticed or are closed");
    }
    files_ = found;
    return true;
}

bool database::is_same_file() const noexcept {
    return !files_ || *files_ == current_files();
}

bool database::in_transaction() const noexcept {
    return sqlite3_get_autocommit(handle_.get()) == 0;
}

void database::execute(const std::string& sql) {
    const int result = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
    if (result != SQLITE_OK) fail(result);
}

std::string database::query(const std::string& sql) {
    statement stmt(*this, sql);
    auto running = stmt.with();
    return running.step() ? std::string(running.text(0)) : std::string();
}

/// The `errno` of the last failure. If SQLite cannot create a file, it tries to open the file for
/// reading and reports ENOENT; then the cause is the folder, and its error is returned.
int database::system_reason() const {
    const int reported = sqlite3_system_errno(handle_.get());
    if (reported != ENOENT) return reported;
    const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
    return ::access(folder.c_str(), W_OK | X_OK) == 0 ? reported : errno;
}

void database::fail(int result_code) const {
    const int kind = result_code & 0xFF;
    if (kind == SQLITE_BUSY || kind == SQLITE_LOCKED) throw file_is_busy{};

    const std::string file = "lock file '" + path_.string() + "'";
    const int system_error = system_reason();
    const std::string reason = system_error != 0 ? std::generic_category().message(system_error)
                                                 : std::string(sqlite3_errstr(result_code));
    const bool forbidden = system_error == EACCES || system_error == EPERM || system_error == EROFS;

    switch (kind) {
        case SQLITE_NOTADB:
            throw lock_error(error_code::invalid_argument,
                             "the " + file +
                                 " is not an SQLite database; it was left as it is. Choose another "
                                 "file");
        case SQLITE_CORRUPT:
            throw lock_error(error_code::internal,
                             "the " + file + " is damaged (" + reason +
                                 "); nothing was granted. Restore it or move it away");
        case SQLITE_FULL:
            throw lock_error(error_code::service_unavailable,
                             "no space is left for the " + file +
                                 "; nothing was changed. Free some space and try again");
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_AUTH:
            throw lock_error(error_code::auth_failed, "no permission to write the " + file +
                                                          " or its folder (" + reason +
                                                          "); SQLite needs both");
        case SQLITE_CANTOPEN:
            throw lock_error(forbidden ? error_code::auth_failed : error_code::service_unavailable,
                             "cannot open the " + file + " (" + reason +
                                 "); check that its folder exists and that you may write to it");
        case SQLITE_PROTOCOL:
            throw lock_error(error_code::service_unavailable,
                             "too many processes use the " + file + " at once; try again");
        case SQLITE_IOERR:
            if (forbidden) {
                throw lock_error(error_code::auth_failed,
                                 "no permission to write the " + file + " (" + reason + ")");
            }
            throw lock_error(
                error_code::service_unavailable,
                "reading or writing the " + file + " failed (" + reason + "); check the disk");
        case SQLITE_NOMEM:
            throw std::bad_alloc();
        default:
            throw lock_error(error_code::internal, "the " + file + " could not be used (" +
                                                       sqlite3_errmsg(handle_.get()) + ")");
    }
}

transaction::transaction(database& file, kind mode) : file_(file) {
    (mode == kind::write ? file_.begin_write_ : file_.begin_read_)->run();
}

transaction::~transaction() {
    if (!file_.in_transaction()) return;
    try {
        file_.rollback_->run();
    } catch (...) {  // the exception that led here is reported
    }
}

void transaction::commit() {
    file_.commit_->run();
}

}  // namespace syncguard::sqlite
