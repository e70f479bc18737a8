#include "sqlite/mounts.hpp"

#include <syncguard/error.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

namespace syncguard::sqlite {

namespace {

/// Decodes the octal escapes `\ooo` of mountinfo.
std::string decoded(std::string_view field) {
    constexpr std::size_t escape_length = 4;
    std::string text;
    for (std::size_t i = 0; i < field.size(); ++i) {
        if (field[i] == '\\' && field.size() - i >= escape_length) {
            text += static_cast<char>(((field[i + 1] - '0') << 6) | ((field[i + 2] - '0') << 3) |
                                      (field[i + 3] - '0'));
            i += escape_length - 1;
        } else {
            text += field[i];
        }
    }
    return text;
}

bool is_under(std::string_view path, std::string_view mount_point) {
    if (mount_point == "/") return true;
    return path.starts_with(mount_point) &&
           (path.size() == mount_point.size() || path[mount_point.size()] == '/');
}

/// The target of a path, which need not exist. Links to missing files are followed, too: SQLite
/// creates the file at the target. Looking up the path triggers automounts.
std::filesystem::path without_links(std::filesystem::path file) {
    constexpr int most_links = 40;
    std::error_code failed;
    for (int i = 0; i < most_links && std::filesystem::is_symlink(file, failed); ++i) {
        const auto target = std::filesystem::read_symlink(file, failed);
        if (failed) break;
        file = file.parent_path() / target;
    }
    auto resolved = std::filesystem::weakly_canonical(file, failed);
    return failed ? file : resolved;
}

/// A line of mountinfo.
struct listed_mount {
    int id = 0;
    int parent = 0;
    mount described;

    [[nodiscard]] bool is_on_way_to(std::string_view path) const {
        return is_under(path, described.mount_point);
    }
};

std::vector<listed_mount> parse(std::string_view mountinfo) {
    std::vector<listed_mount> mounts;
    std::istringstream lines{std::string(mountinfo)};
    for (std::string line; std::getline(lines, line);) {
        // id, parent, device, root, mount point, options, any number of tags, "-", type
        std::istringstream fields(line);
        listed_mount next;
        std::string field;
        fields >> next.id >> next.parent >> field >> field >> field;
        next.described.mount_point = decoded(field);
        while (fields >> field && field != "-") {
        }
        if (fields >> next.described.type) mounts.push_back(std::move(next));
    }
    return mounts;
}

}  // namespace

mount find_mount(std::string_view mountinfo, std::string_view path) {
    const auto mounts = parse(mountinfo);
    const auto is_listed = [&](int id) {
        return std::any_of(mounts.begin(), mounts.end(),
                           [&](const auto& each) { return each.id == id; });
    };
    // As the kernel looks up a path: from a mount to the first one on the way that is mounted in
    // it. A mount below a folder that another mount covers is not reached, nor is one that covers
    // the root of this process.
    const listed_mount* found = nullptr;
    for (std::size_t steps = 0; steps < mounts.size(); ++steps) {
        const listed_mount* next = nullptr;
        for (const auto& each : mounts) {
            const bool is_root = each.parent == each.id || !is_listed(each.parent);
            const bool is_attached = found == nullptr ? is_root : each.parent == found->id;
            const bool covers_root = found != nullptr && each.described.mount_point == "/";
            if (!is_attached || covers_root || !each.is_on_way_to(path)) continue;
            if (next == nullptr ||
                each.described.mount_point.size() <= next->described.mount_point.size()) {
                next = &each;
            }
        }
        if (next == nullptr) break;
        found = next;
    }
    return found == nullptr ? mount{} : found->described;
}

bool is_remote_filesystem(std::string_view type) noexcept {
    if (type == "fuse.fuse-overlayfs") return false;
    if (type.starts_with("nfs") || type.starts_with("fuse.")) return true;
    // "autofs": not mounted yet. Empty: unknown.
    constexpr std::array<std::string_view, 23> remote{
        "",       "9p",        "afs",  "autofs", "beegfs", "ceph",     "cifs",  "coda",
        "drvfs",  "fakeowner", "fuse", "gfs2",   "gpfs",   "lustre",   "ocfs2", "orangefs",
        "prl_fs", "pvfs2",     "smb3", "smbfs",  "vboxsf", "virtiofs", "vmhgfs"};
    return std::find(remote.begin(), remote.end(), type) != remote.end();
}

void check_mount(const std::filesystem::path& file, bool allow_remote_filesystem) {
    const std::string name = "the lock file '" + file.string() + "'";
    const auto real_file = without_links(file);
    std::ifstream mounts("/proc/self/mountinfo");
    const std::string mountinfo{std::istreambuf_iterator<char>(mounts), {}};
    if (mountinfo.empty()) {
        throw lock_error(error_code::service_unavailable,
                         "cannot tell which file system " + name +
                             " is on: /proc/self/mountinfo cannot be read. Mount /proc");
    }
    const mount file_mount = find_mount(mountinfo, real_file.native());
    if (file_mount.mount_point == real_file.native()) {
        throw lock_error(error_code::invalid_argument,
                         name +
                             " is mounted alone, without SQLite's files beside it: processes "
                             "that use it by another name would not see its locks. Mount its "
                             "folder instead");
    }
    if (!allow_remote_filesystem && is_remote_filesystem(file_mount.type)) {
        throw lock_error(
            error_code::invalid_argument,
            name + " is on a file system that other hosts may use (" +
                (file_mount.type.empty() ? "it is not in /proc/self/mountinfo, as in a chroot"
                                         : file_mount.type) +
                "), where locks exclude only processes of the same host. Use a file "
                "on a local disk, or redis or postgres for locks among hosts. If only "
                "one host uses the file, allow it with allow_remote_filesystem=true");
    }
}

}  // namespace syncguard::sqlite
