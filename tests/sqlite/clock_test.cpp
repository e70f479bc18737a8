/// Embedded stores and the host's clocks: steps of the wall clock, reboots, time namespaces.
#include "sqlite/faulty_vfs.hpp"
#include "sqlite/wall_clock.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/sqlite_connection.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/connect.hpp>
#include <syncguard/memory.hpp>
#include <syncguard/sqlite.hpp>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

constexpr int not_permitted = 97;

class embedded_store : public testing::TestWithParam<std::string> {
  protected:
    temporary_folder folder_;
    any_backend locks_ =
        connect(GetParam() == "memory" ? "memory:" : "sqlite:" + (folder_ / "locks.db").string());
};

INSTANTIATE_TEST_SUITE_P(engines, embedded_store, testing::Values("memory", "sqlite"),
                         [](const auto& test) { return test.param; });

TEST_P(embedded_store, a_forward_step_of_the_wall_clock_admits_no_second_holder) {
    auto lease = locks_.acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    const wall_clock_step step(1h);
    EXPECT_FALSE(locks_.acquire("k"));
    EXPECT_TRUE(locks_.is_locked("k"));
    EXPECT_TRUE(lease->valid());
    EXPECT_TRUE(lease->extend({.ttl = 30s}).ok);
    EXPECT_TRUE(lease->release().ok);
}

TEST_P(embedded_store, a_backward_step_of_the_wall_clock_keeps_no_lock_longer) {
    locks_.acquire("k", {.ttl = 500ms})->detach();
    const wall_clock_step step(-1h);
    EXPECT_TRUE(eventually([&] { return locks_.acquire("k").ok(); }));
}

class boot_clock : public testing::Test {
  protected:
    [[nodiscard]] sqlite::backend open() const { return sqlite::backend({.path = path_}); }

    temporary_folder folder_;
    std::filesystem::path path_ = folder_ / "locks.db";
};

/// Runs `body` in a child after `prepare`, which needs privileges. Returns `not_permitted` if
/// `prepare` fails.
int run_privileged(const std::function<bool()>& prepare, const std::function<int()>& body) {
    child_process child([&] { return prepare() ? body() : not_permitted; });
    return child.wait();
}

bool enter_mount_namespace() {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// Runs `body` in a time namespace whose boot clock is ahead of the host's.
int run_in_time_namespace(std::chrono::seconds ahead, const std::function<int()>& body) {
    const auto prepare = [&] {
        if (::unshare(CLONE_NEWTIME) != 0) return false;
        std::ofstream offsets("/proc/self/timens_offsets");
        offsets << "boottime " << ahead.count() << " 0" << std::flush;
        return offsets.good();
    };
    return run_privileged(prepare, [&] {
        // Only a child of this process enters the namespace.
        child_process inside(body);
        return inside.wait();
    });
}

TEST_F(boot_clock, locks_of_an_earlier_boot_are_expired_and_their_fences_continue) {
    auto lease = open().acquire("k", {.ttl = 1h});
    ASSERT_TRUE(lease);
    sqlite_connection(path_).run("UPDATE syncguard_locks_v2 SET boot_id = 'an earlier boot'");
    EXPECT_FALSE(open().is_locked("k"));
    EXPECT_FALSE(lease->extend({.ttl = 1h}).ok);
    auto next = open().acquire("k");
    ASSERT_TRUE(next);
    EXPECT_GT(next->fence(), lease->fence());
}

TEST_F(boot_clock, a_process_in_another_time_namespace_respects_locks_of_the_host) {
    auto lease = open().acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    const int code = run_in_time_namespace(3600s, [&] { return open().acquire("k") ? 1 : 0; });
    if (code == not_permitted) GTEST_SKIP() << "time namespaces need root";
    EXPECT_EQ(code, 0);
}

TEST_F(boot_clock, a_lock_acquired_in_another_time_namespace_ends_with_its_ttl) {
    const int code = run_in_time_namespace(3600s, [&] {
        open().acquire("k", {.ttl = 200ms})->detach();
        return 0;
    });
    if (code == not_permitted) GTEST_SKIP() << "time namespaces need root";
    ASSERT_EQ(code, 0);
    EXPECT_TRUE(open().is_locked("k"));
    EXPECT_TRUE(eventually([&] { return open().acquire("k").ok(); }));
}

TEST_F(boot_clock, a_process_that_cannot_find_its_time_namespace_is_refused) {
    const int code = run_privileged([] { return ::unshare(CLONE_NEWTIME) == 0; },
                                    [&] {
                                        expect_error(error_code::service_unavailable,
                                                     [&] { (void)open().acquire("k"); });
                                        return HasFailure() ? 1 : 0;
                                    });
    if (code == not_permitted) GTEST_SKIP() << "time namespaces need root";
    EXPECT_EQ(code, 0);
}

TEST_F(boot_clock, a_container_with_a_boot_id_of_its_own_respects_locks_of_the_host) {
    auto lease = open().acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    std::ofstream(folder_ / "boot_id") << "00000000-1111-2222-3333-444444444444\n";
    const int code = run_privileged(
        [&] {
            return enter_mount_namespace() &&
                   ::mount((folder_ / "boot_id").c_str(), "/proc/sys/kernel/random/boot_id",
                           nullptr, MS_BIND, nullptr) == 0;
        },
        [&] {
            if (open().acquire("k")) return 1;
            open().acquire("of the container", {.ttl = 30s})->detach();
            return open().is_locked("of the container") ? 0 : 2;
        });
    if (code == not_permitted) GTEST_SKIP() << "bind mounts need root";
    EXPECT_EQ(code, 0);
    EXPECT_FALSE(open().acquire("of the container"));
}

TEST_F(boot_clock, without_a_proc_file_system_nothing_is_granted) {
    const int code = run_privileged(
        [] { return enter_mount_namespace() && ::umount2("/proc", MNT_DETACH) == 0; },
        [&] {
            expect_error(error_code::service_unavailable, [&] { (void)open().acquire("k"); });
            return HasFailure() ? 1 : 0;
        });
    if (code == not_permitted) GTEST_SKIP() << "unmounting /proc needs root";
    EXPECT_EQ(code, 0);
}

/// Lock files on the file systems that /proc/self/mountinfo lists.
class mounted_lock_file : public boot_clock {
  protected:
    /// A line of mountinfo: the root file system, or a file system mounted in it.
    static std::string line(const std::filesystem::path& mount_point, const std::string& type) {
        const std::string ids = mount_point == "/" ? "1 0" : "2 1";
        return ids + " 254:0 / " + mount_point.string() + " rw,relatime - " + type + " source rw\n";
    }

    /// Runs `body` in a child whose /proc/self/mountinfo has this text.
    [[nodiscard]] int run_with_mounts(const std::string& mountinfo,
                                      const std::function<int()>& body) const {
        const auto shown = folder_ / "mounts";
        std::ofstream(shown) << mountinfo;
        const auto prepare = [&] {
            const auto own = "/proc/" + std::to_string(::getpid()) + "/mountinfo";
            return enter_mount_namespace() &&
                   ::mount(shown.c_str(), own.c_str(), nullptr, MS_BIND, nullptr) == 0;
        };
        return run_privileged(prepare, body);
    }

    /// 0 if the file at `path` is refused with a message that contains `expected`, and nothing is
    /// created.
    [[nodiscard]] static int expect_refusal(const std::filesystem::path& path,
                                            const std::string& expected) {
        const auto url = "sqlite:" + path.string();
        const auto failure =
            expect_error(error_code::invalid_argument, [&] { (void)connect(url).acquire("k"); });
        if (!failure) return 1;
        const std::string message = failure->what();
        if (message.find(expected) == std::string::npos) return 2;
        if (message.find("allow_remote_filesystem") == std::string::npos) return 3;
        if (std::filesystem::exists(path)) return 4;
        return connect(url + "?allow_remote_filesystem=true").acquire("k") ? 0 : 5;
    }
};

TEST_F(mounted_lock_file, on_a_remote_file_system_is_refused_unless_it_is_allowed) {
    const int code =
        run_with_mounts(line("/", "nfs4"), [&] { return expect_refusal(path_, "nfs4"); });
    if (code == not_permitted) GTEST_SKIP() << "bind mounts need root";
    EXPECT_EQ(code, 0);
}

TEST_F(mounted_lock_file, is_not_yet_on_the_file_system_that_an_automount_will_mount) {
    const int code = run_with_mounts(line("/", "ext4") + line(folder_.path(), "autofs"),
                                     [&] { return expect_refusal(path_, "autofs"); });
    if (code == not_permitted) GTEST_SKIP() << "bind mounts need root";
    EXPECT_EQ(code, 0);
}

TEST_F(mounted_lock_file, whose_file_system_is_not_listed_is_refused) {
    const int code = run_with_mounts(line("/elsewhere", "ext4"),
                                     [&] { return expect_refusal(path_, "chroot"); });
    if (code == not_permitted) GTEST_SKIP() << "bind mounts need root";
    EXPECT_EQ(code, 0);
}

TEST_F(mounted_lock_file, behind_links_to_a_missing_file_is_checked_where_it_would_be_created) {
    std::filesystem::create_directory(folder_ / "remote");
    std::filesystem::create_symlink("remote/locks.db", folder_ / "second.db");
    std::filesystem::create_symlink(folder_ / "second.db", folder_ / "first.db");
    const int code = run_with_mounts(line("/", "ext4") + line(folder_ / "remote", "cifs"),
                                     [&] { return expect_refusal(folder_ / "first.db", "cifs"); });
    if (code == not_permitted) GTEST_SKIP() << "bind mounts need root";
    EXPECT_EQ(code, 0);
}

TEST_F(mounted_lock_file,
       that_a_link_moves_to_a_remote_file_system_before_it_is_opened_is_refused) {
    std::filesystem::create_directory(folder_ / "local");
    std::filesystem::create_directory(folder_ / "remote");
    const auto link = folder_ / "current";
    std::filesystem::create_directory_symlink(folder_ / "local", link);
    const int code = run_with_mounts(line("/", "ext4") + line(folder_ / "remote", "nfs4"), [&] {
        const faulty_vfs faults;
        faulty_vfs::act_before_open([&] {
            std::filesystem::create_directory_symlink(folder_ / "remote", folder_ / "next");
            std::filesystem::rename(folder_ / "next", link);
        });
        const auto locks = connect("sqlite:" + (link / "locks.db").string());
        const auto failure =
            expect_error(error_code::invalid_argument, [&] { (void)locks.acquire("k"); });
        if (!faulty_vfs::struck()) return 1;
        if (!failure) return 2;
        return std::string(failure->what()).find("nfs4") == std::string::npos ? 3 : 0;
    });
    if (code == not_permitted) GTEST_SKIP() << "bind mounts need root";
    EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace syncguard::test
