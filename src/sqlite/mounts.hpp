/// Finds and checks the mount of the lock file: SQLite's file locks and the boot clock work only
/// within one kernel.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace syncguard::sqlite {

struct mount {
    std::string mount_point;
    std::string type;
};

/// The mount of an absolute path without symbolic links, according to the text of
/// /proc/self/mountinfo: the mount that a lookup of the path reaches, not one that a later mount
/// covers. Empty if no listed mount contains the path.
[[nodiscard]] mount find_mount(std::string_view mountinfo, std::string_view path);

/// Whether, by its type, the file system may be mounted by other kernels at the same time.
[[nodiscard]] bool is_remote_filesystem(std::string_view type) noexcept;

/// Throws `lock_error` if the file is on a remote file system, unless that is allowed, or is itself
/// a mount point: such a file has several paths, and SQLite would create separate side files beside
/// each. The file need not exist.
void check_mount(const std::filesystem::path& file, bool allow_remote_filesystem);

}  // namespace syncguard::sqlite
