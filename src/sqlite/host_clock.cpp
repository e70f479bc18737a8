#include "sqlite/host_clock.hpp"

#include <syncguard/error.hpp>

#include <linux/magic.h>
#include <sys/vfs.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace syncguard::sqlite {

namespace {

/// Empty if the file is missing (`subset=pid`), or if a container manager has mounted another file
/// over it: then it does not identify the boot of the host.
std::string read_boot_id() {
    constexpr const char* path = "/proc/sys/kernel/random/boot_id";
    struct statfs file_system {};
    if (::statfs(path, &file_system) != 0 || file_system.f_type != PROC_SUPER_MAGIC) return {};
    std::string id;
    std::getline(std::ifstream(path), id);
    return id;
}

[[noreturn]] void refuse(const std::string& reason) {
    throw lock_error(error_code::service_unavailable,
                     "the boot clock of the host cannot be read: " + reason);
}

std::chrono::nanoseconds read_namespace_offset() {
    namespace fs = std::filesystem;
    std::error_code failed;
    const auto own = fs::read_symlink("/proc/self/ns/time", failed);
    if (failed) {
        if (fs::exists("/proc/self/ns", failed)) return {};  // a kernel without time namespaces
        refuse("/proc is not mounted");
    }
    // The kernel shows only the offsets of the time namespace for children of this process.
    if (own != fs::read_symlink("/proc/self/ns/time_for_children", failed) || failed) {
        refuse(
            "this process called unshare(CLONE_NEWTIME), so that its children are in another time "
            "namespace; use locks in a child process");
    }
    std::ifstream offsets("/proc/self/timens_offsets");
    std::string clock;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    while (offsets >> clock >> seconds >> nanoseconds) {
        if (clock == "boottime") {
            return std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds);
        }
    }
    refuse("/proc/self/timens_offsets is not as expected");
}

}  // namespace

milliseconds remaining_life(const lock_period& period, const host_time& now) noexcept {
    const bool unknown = period.boot_id.empty() || now.boot_id.empty();
    const bool other_boot = unknown ? period.began_ms > now.boot_ms : period.boot_id != now.boot_id;
    if (other_boot) return milliseconds(0);
    return longest_life(unix_time(milliseconds(period.ends_ms)),
                        unix_time(milliseconds(now.boot_ms)));
}

host_clock::host_clock() : boot_id_(read_boot_id()), namespace_offset_(read_namespace_offset()) {}

host_clock::host_clock(wall_clock replacement)
    : replacement_(std::move(replacement)), boot_id_("replaced clock") {}

host_time host_clock::now() const {
    const auto elapsed = replacement_ ? std::chrono::nanoseconds(replacement_().time_since_epoch())
                                      : lease_clock::now().time_since_epoch() - namespace_offset_;
    return {boot_id_, std::chrono::floor<milliseconds>(elapsed).count()};
}

unix_time host_clock::wall_now() const {
    if (replacement_) return replacement_();
    return std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
}

}  // namespace syncguard::sqlite
