#include "sqlite/faulty_vfs.hpp"

#include <sqlite3.h>

#include <cstring>
#include <mutex>
#include <utility>

namespace syncguard::test {

namespace {

struct fault_plan {
    std::mutex mutex;
    int calls_left = 0;
    bool armed = false;
    bool lasting = false;
    bool struck = false;
    int result_code = SQLITE_OK;
    std::function<void()> action;
    std::function<void()> action_before_open;
};

fault_plan plan;

/// The result that a writing call returns instead of doing its work; SQLITE_OK to continue.
int next_writing_call() {
    std::function<void()> action;
    {
        const std::lock_guard guard(plan.mutex);
        if (!plan.armed || --plan.calls_left > 0) return SQLITE_OK;
        if (plan.calls_left < 0 && !plan.lasting) return SQLITE_OK;
        plan.struck = true;
        if (!plan.action) return plan.result_code;
        action = std::exchange(plan.action, nullptr);
    }
    action();
    return SQLITE_OK;
}

sqlite3_vfs* real = nullptr;

/// The shim's file; the real file follows it in the same memory block.
struct shim_file {
    sqlite3_file base;
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

sqlite3_file* inner(sqlite3_file* file) {
    return reinterpret_cast<shim_file*>(file)->real();
}

int shim_close(sqlite3_file* f) {
    return inner(f)->pMethods->xClose(inner(f));
}
int shim_read(sqlite3_file* f, void* to, int amount, sqlite3_int64 offset) {
    return inner(f)->pMethods->xRead(inner(f), to, amount, offset);
}
int shim_write(sqlite3_file* f, const void* from, int amount, sqlite3_int64 offset) {
    const int fault = next_writing_call();
    if (fault != SQLITE_OK) return fault == SQLITE_IOERR ? SQLITE_IOERR_WRITE : fault;
    return inner(f)->pMethods->xWrite(inner(f), from, amount, offset);
}
int shim_truncate(sqlite3_file* f, sqlite3_int64 size) {
    const int fault = next_writing_call();
    if (fault != SQLITE_OK) return SQLITE_IOERR_TRUNCATE;
    return inner(f)->pMethods->xTruncate(inner(f), size);
}
int shim_sync(sqlite3_file* f, int flags) {
    const int fault = next_writing_call();
    if (fault != SQLITE_OK) return SQLITE_IOERR_FSYNC;
    return inner(f)->pMethods->xSync(inner(f), flags);
}
int shim_size(sqlite3_file* f, sqlite3_int64* size) {
    return inner(f)->pMethods->xFileSize(inner(f), size);
}
int shim_lock(sqlite3_file* f, int level) {
    return inner(f)->pMethods->xLock(inner(f), level);
}
int shim_unlock(sqlite3_file* f, int level) {
    return inner(f)->pMethods->xUnlock(inner(f), level);
}
int shim_check(sqlite3_file* f, int* result) {
    return inner(f)->pMethods->xCheckReservedLock(inner(f), result);
}
int shim_control(sqlite3_file* f, int op, void* argument) {
    return inner(f)->pMethods->xFileControl(inner(f), op, argument);
}
int shim_sector_size(sqlite3_file* f) {
    return inner(f)->pMethods->xSectorSize(inner(f));
}
int shim_characteristics(sqlite3_file* f) {
    return inner(f)->pMethods->xDeviceCharacteristics(inner(f));
}
int shim_shm_map(sqlite3_file* f, int page, int size, int extend, void volatile** at) {
    return inner(f)->pMethods->xShmMap(inner(f), page, size, extend, at);
}
int shim_shm_lock(sqlite3_file* f, int offset, int n, int flags) {
    return inner(f)->pMethods->xShmLock(inner(f), offset, n, flags);
}
void shim_shm_barrier(sqlite3_file* f) {
    inner(f)->pMethods->xShmBarrier(inner(f));
}
int shim_shm_unmap(sqlite3_file* f, int remove) {
    return inner(f)->pMethods->xShmUnmap(inner(f), remove);
}

const sqlite3_io_methods methods = {2,
                                    shim_close,
                                    shim_read,
                                    shim_write,
                                    shim_truncate,
                                    shim_sync,
                                    shim_size,
                                    shim_lock,
                                    shim_unlock,
                                    shim_check,
                                    shim_control,
                                    shim_sector_size,
                                    shim_characteristics,
                                    shim_shm_map,
                                    shim_shm_lock,
                                    shim_shm_barrier,
                                    shim_shm_unmap,
                                    nullptr,
                                    nullptr};

int shim_open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    auto* shim = reinterpret_cast<shim_file*>(file);
    std::memset(shim, 0, sizeof(*shim));
    const int result = real->xOpen(real, name, shim->real(), flags, out_flags);
    if (shim->real()->pMethods != nullptr) shim->base.pMethods = &methods;
    return result;
}

int shim_delete(sqlite3_vfs*, const char* name, int sync) {
    if (next_writing_call() != SQLITE_OK) return SQLITE_IOERR_DELETE;
    return real->xDelete(real, name, sync);
}

int shim_full_path(sqlite3_vfs*, const char* name, int size, char* resolved) {
    std::function<void()> action;
    {
        const std::lock_guard guard(plan.mutex);
        action = std::exchange(plan.action_before_open, nullptr);
        if (action) plan.struck = true;
    }
    if (action) action();
    return real->xFullPathname(real, name, size, resolved);
}

sqlite3_vfs shim;

}  // namespace

faulty_vfs::faulty_vfs() {
    behave();
    real = sqlite3_vfs_find(nullptr);
    shim = *real;
    shim.zName = "faulty";
    shim.szOsFile = static_cast<int>(sizeof(shim_file)) + real->szOsFile;
    shim.xOpen = shim_open;
    shim.xDelete = shim_delete;
    shim.xFullPathname = shim_full_path;
    sqlite3_vfs_register(&shim, 1);
}

faulty_vfs::~faulty_vfs() {
    behave();
    sqlite3_vfs_unregister(&shim);
    sqlite3_vfs_register(real, 1);
}

void faulty_vfs::fail_from(int nth, int result_code) {
    fail_once(nth, result_code);
    const std::lock_guard guard(plan.mutex);
    plan.lasting = true;
}

void faulty_vfs::fail_once(int nth, int result_code) {
    behave();
    const std::lock_guard guard(plan.mutex);
    plan.armed = true;
    plan.calls_left = nth;
    plan.result_code = result_code;
}

void faulty_vfs::act_before(int nth, std::function<void()> action) {
    behave();
    const std::lock_guard guard(plan.mutex);
    plan.armed = true;
    plan.calls_left = nth;
    plan.action = std::move(action);
}

void faulty_vfs::act_before_open(std::function<void()> action) {
    behave();
    const std::lock_guard guard(plan.mutex);
    plan.action_before_open = std::move(action);
}

void faulty_vfs::behave() {
    const std::lock_guard guard(plan.mutex);
    plan.armed = false;
    plan.lasting = false;
    plan.struck = false;
    plan.result_code = SQLITE_OK;
    plan.action = nullptr;
    plan.action_before_open = nullptr;
}

bool faulty_vfs::struck() {
    const std::lock_guard guard(plan.mutex);
    return plan.struck;
}

}  // namespace syncguard::test
