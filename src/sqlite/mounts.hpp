/// The mount that a file is on. SQLite's file locks and the boot clock work only within one kernel.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace syncguard::sqlite {

struct mount {
    std::string mount_point;
    std::string type;
};

/// The mount that an absolute path without links is on, by the text of /proc/self/mountinfo: the
/// one that a lookup of the path reaches, not one that a later mount covers. Empty if none of those
/// listed is above it.
[[nodiscard]] mount find_mount(std::string_view mountinfo, std::string_view path);

/// Whether other kernels can have the file system mounted at the same time, for all that its type
/// says.
[[nodiscard]] bool is_remote_filesystem(std::string_view type) noexcept;

/// Throws `lock_error` if the file is on a remote file system, unless that is allowed, or is itself
/// a mount point: it has a path for each mount, and SQLite would create separate side files beside
/// each. The file need not exist.
void check_mount(const std::filesystem::path& file, bool allow_remote_filesystem);

}  // namespace syncguard::sqlite
