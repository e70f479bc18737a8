/// Locks in a file, shared by all processes of a host. No server is needed.
#pragma once

#include <syncguard/backend.hpp>

#include <filesystem>
#include <string_view>

namespace syncguard::sqlite {

struct capabilities {
    static constexpr std::string_view backend = "sqlite";
    static constexpr bool supports_fencing = true;
    /// One host, one clock: locks end by its boot clock.
    static constexpr syncguard::time_authority time_authority = syncguard::time_authority::server;
};

struct options {
    /// The database file. Empty: `default_path()`, whose folder is created (mode 0700) if it is
    /// missing.
    std::filesystem::path path{};
    /// The store's clock; inject one to test expiry without waiting. All processes that share a
    /// file must share its clock. Empty: the boot id and CLOCK_BOOTTIME of the host, independent of
    /// time namespaces. Steps of the wall clock have no effect; a reboot ends all locks.
    wall_clock clock{};
    /// Accepts a file on a network file system, or one shared with virtual machines. Set it only if
    /// a single host uses the file: two hosts would end each other's locks.
    bool allow_remote_filesystem = false;
};

/// `$XDG_STATE_HOME/syncguard/locks.db`, or `~/.local/state/syncguard/locks.db` if the variable is
/// unset or not absolute. Throws `lock_error` (invalid_argument) if there is no home directory
/// either.
[[nodiscard]] std::filesystem::path default_path();

/// Every grant and release is on the disk before the call returns: fences survive a crash of the
/// process and of the machine. The file is opened at the first operation, created if it is missing,
/// and opened again if it was replaced or removed meanwhile.
///
/// The file must be on a local file system, have one name (no hard links) and not be a mount point
/// itself. Its side files `-wal` and `-shm` belong to it: if one of the three is removed or
/// replaced, its locks have ended, and `extend` and `release` answer `not_found`.
///
/// Messages of failures name the file: `invalid_argument` if it is not a SyncGuard database, was
/// written by a newer version or is in a place that is refused, `auth_failed` if permissions are
/// missing, `service_unavailable` if the disk is full or fails, `network_timeout` if other
/// processes keep the file busy past the deadline.
class backend : public basic_backend<capabilities> {
  public:
    explicit backend(options opts = {}, backend_options common = {});
};

}  // namespace syncguard::sqlite
