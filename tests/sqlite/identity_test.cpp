/// SQLite's three files: removed, linked, mounted and replaced while locks are held.
#include "sqlite/faulty_vfs.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/sqlite_connection.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/sqlite.hpp>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class file_identity_test : public testing::Test {
  protected:
    [[nodiscard]] static sqlite::backend open(const fs::path& path) {
        return sqlite::backend({.path = path}, {.operation_timeout = 5s});
    }

    /// Removes SQLite's side files.
    void remove_side_files() const {
        fs::remove(path_.string() + "-wal");
        fs::remove(path_.string() + "-shm");
    }

    /// Whether another process is granted "k", for an hour.
    [[nodiscard]] bool granted_to_another_process() const {
        child_process child([&] {
            auto lease = open(path_).acquire("k", {.ttl = 1h});
            if (!lease) return 1;
            lease->detach();
            return 0;
        });
        return child.wait() == 0;
    }

    temporary_folder folder_;
    fs::path path_ = folder_ / "locks.db";
};

TEST_F(file_identity_test, an_extend_after_the_side_files_were_removed_reports_the_loss) {
    const auto locks = open(path_);
    auto lease = locks.acquire("k", {.ttl = 1h});
    ASSERT_TRUE(lease);
    remove_side_files();
    ASSERT_TRUE(granted_to_another_process());
    EXPECT_FALSE(lease->extend({.ttl = 1h}).ok);
    EXPECT_FALSE(locks.acquire("k"));
}

TEST_F(file_identity_test, a_release_after_the_side_files_were_removed_reports_not_held) {
    auto lease = open(path_).acquire("k", {.ttl = 1h});
    ASSERT_TRUE(lease);
    remove_side_files();
    EXPECT_FALSE(lease->release().ok);
}

TEST_F(file_identity_test, a_grant_whose_file_is_removed_during_the_commit_is_repeated) {
    const faulty_vfs faults;
    const auto locks = open(path_);
    ASSERT_TRUE(locks.acquire("warm-up"));
    faulty_vfs::act_before(1, [&] { remove_side_files(); });
    auto lease = locks.acquire("k", {.ttl = 1h});
    ASSERT_TRUE(faulty_vfs::struck());
    ASSERT_TRUE(lease);
    EXPECT_FALSE(granted_to_another_process());
    EXPECT_TRUE(lease->extend({.ttl = 1h}).ok);
}

TEST_F(file_identity_test, closing_a_connection_to_removed_side_files_reverts_no_fence) {
    auto stale = std::make_unique<sqlite::backend>(open(path_));
    for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(stale->acquire("k"));
    remove_side_files();
    child_process other([&] {
        const auto locks = open(path_);
        for (int i = 0; i < 9; ++i) {
            if (!locks.acquire("k")) return 1;
        }
        return 0;
    });
    ASSERT_EQ(other.wait(), 0);
    stale.reset();
    auto next = open(path_).acquire("k");
    ASSERT_TRUE(next);
    EXPECT_GE(next->fence(), fence::from_counter(10));
}

TEST_F(file_identity_test, two_backends_of_a_process_do_not_share_removed_side_files) {
    const auto first = open(path_);
    const auto second = open(path_);
    ASSERT_TRUE(first.acquire("k"));
    ASSERT_TRUE(second.acquire("k"));
    remove_side_files();
    // SQLite would let the first backend share the files that the second still has open.
    std::optional<lease<sqlite::capabilities>> lease;
    try {
        if (auto result = first.acquire("k", {.ttl = 1h})) lease = std::move(*result);
    } catch (const lock_error& failure) {
        EXPECT_EQ(failure.code(), error_code::service_unavailable) << failure.what();
    }
    EXPECT_NE(granted_to_another_process(), lease.has_value());
    EXPECT_FALSE(second.acquire("k"));
    EXPECT_FALSE(first.acquire("k"));
}

TEST_F(file_identity_test, a_hard_link_is_refused) {
    auto lease = open(path_).acquire("k", {.ttl = 1h});
    ASSERT_TRUE(lease);
    fs::create_hard_link(path_, folder_ / "link.db");
    for (const auto& path : {folder_ / "link.db", path_}) {
        const auto failure =
            expect_error(error_code::invalid_argument, [&] { (void)open(path).acquire("k"); });
        ASSERT_TRUE(failure);
        EXPECT_NE(std::string(failure->what()).find("hard link"), std::string::npos);
    }
    fs::remove(folder_ / "link.db");
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(file_identity_test, redirecting_a_link_to_the_folder_ends_the_locks_of_the_old_folder) {
    fs::create_directory(folder_ / "blue");
    fs::create_directory(folder_ / "green");
    const fs::path link = folder_ / "current";
    fs::create_directory_symlink(folder_ / "blue", link);
    auto lease = open(link / "locks.db").acquire("k", {.ttl = 1h});
    ASSERT_TRUE(lease);
    fs::create_directory_symlink(folder_ / "green", folder_ / "next");
    fs::rename(folder_ / "next", link);
    auto other = open(link / "locks.db").acquire("k", {.ttl = 1h});
    ASSERT_TRUE(other);
    EXPECT_FALSE(lease->extend({.ttl = 1h}).ok);
    EXPECT_TRUE(other->extend({.ttl = 1h}).ok);
}

/// Another process that tries to acquire "k" on request, and holds it for an hour. Created in
/// advance, because a fork waits for the operation that is under way.
class process_on_call {
  public:
    explicit process_on_call(const fs::path& path)
        : child_([this, path] {
              char byte = 0;
              if (::read(call_[0], &byte, 1) != 1) return 1;
              const sqlite::backend locks({.path = path}, {.operation_timeout = 300ms});
              bool granted = false;
              try {
                  auto lease = locks.acquire("k", {.ttl = 1h});
                  granted = lease.ok();
                  if (lease) lease->detach();
              } catch (const lock_error&) {  // the other process holds the write lock
              }
              byte = granted ? 'y' : 'n';
              return ::write(answer_[1], &byte, 1) == 1 ? 0 : 1;
          }) {}
    process_on_call(const process_on_call&) = delete;
    process_on_call& operator=(const process_on_call&) = delete;
    ~process_on_call() {
        for (const int each : {call_[0], call_[1], answer_[0], answer_[1]})
            ::close(each);
    }

    [[nodiscard]] bool acquires() const {
        char byte = 'n';
        EXPECT_EQ(::write(call_[1], &byte, 1), 1);
        EXPECT_EQ(::read(answer_[0], &byte, 1), 1);
        return byte == 'y';
    }

  private:
    static std::array<int, 2> make_pipe() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe(ends.data()), 0);
        return ends;
    }

    std::array<int, 2> call_ = make_pipe();
    std::array<int, 2> answer_ = make_pipe();
    child_process child_;
};

/// Before each writing call of an acquisition that opens a new file, calls `change` and lets
/// another process acquire the lock.
void expect_one_holder_whenever(const fs::path& folder,
                                const std::function<void(const fs::path&)>& prepare,
                                const std::function<void(const fs::path&)>& change) {
    const faulty_vfs faults;
    bool struck = true;
    int grants_of_others = 0;
    for (int nth = 1; struck; ++nth) {
        SCOPED_TRACE(nth);
        ASSERT_LT(nth, 500);
        const fs::path place = folder / std::to_string(nth);
        fs::create_directory(place);
        prepare(place);
        const process_on_call other(place / "current/locks.db");
        bool granted_to_other = false;
        faulty_vfs::act_before(nth, [&] {
            change(place);
            granted_to_other = other.acquires();
        });
        const sqlite::backend locks({.path = place / "current/locks.db"},
                                    {.operation_timeout = 2s});
        bool granted = false;
        try {
            auto lease = locks.acquire("k", {.ttl = 1h});
            granted = lease.ok();
            if (lease) lease->detach();
        } catch (const lock_error& failure) {
            EXPECT_NE(failure.code(), error_code::internal) << failure.what();
        }
        struck = faulty_vfs::struck();
        faulty_vfs::behave();
        EXPECT_FALSE(granted && granted_to_other);
        if (granted_to_other) ++grants_of_others;
    }
    EXPECT_GT(grants_of_others, 3) << "the other process was hardly ever granted the lock";
}

TEST_F(file_identity_test, a_link_redirected_while_the_file_is_opened_admits_no_second_holder) {
    expect_one_holder_whenever(
        folder_.path(),
        [](const fs::path& place) {
            fs::create_directory(place / "blue");
            fs::create_directory(place / "green");
            fs::create_directory_symlink(place / "blue", place / "current");
        },
        [](const fs::path& place) {
            fs::create_directory_symlink(place / "green", place / "next");
            fs::rename(place / "next", place / "current");
        });
}

TEST_F(file_identity_test, side_files_removed_while_the_file_is_opened_admit_no_second_holder) {
    expect_one_holder_whenever(
        folder_.path(), [](const fs::path& place) { fs::create_directory(place / "current"); },
        [](const fs::path& place) {
            fs::remove(place / "current/locks.db-wal");
            fs::remove(place / "current/locks.db-shm");
        });
}

using file_lease = lease<sqlite::capabilities>;

/// Before each writing call of an operation on a lease, removes the side files and lets another
/// process acquire the lock. Expects that the operation then fails and keeps the other process's
/// lock. Returns how often the other process was granted it.
int expect_loss_at_every_write(const fs::path& folder,
                               const std::function<bool(file_lease&)>& succeeds) {
    const faulty_vfs faults;
    int grants_of_others = 0;
    for (int nth = 1;; ++nth) {
        SCOPED_TRACE(nth);
        const fs::path path = folder / (std::to_string(nth) + ".db");
        const process_on_call other(path);
        const sqlite::backend locks({.path = path}, {.operation_timeout = 5s});
        auto lease = locks.acquire("k", {.ttl = 1h});
        if (!lease) {
            ADD_FAILURE() << "not acquired";
            return 0;
        }
        bool granted_to_other = false;
        faulty_vfs::act_before(nth, [&] {
            fs::remove(path.string() + "-wal");
            fs::remove(path.string() + "-shm");
            granted_to_other = other.acquires();
        });
        const bool succeeded = succeeds(*lease);
        const bool struck = faulty_vfs::struck();
        faulty_vfs::behave();
        if (!struck) return grants_of_others;
        EXPECT_FALSE(succeeded && granted_to_other);
        if (!granted_to_other) continue;
        ++grants_of_others;
        EXPECT_TRUE(locks.is_locked("k"));
    }
}

TEST_F(file_identity_test, an_extend_whose_side_files_are_removed_meanwhile_reports_the_loss) {
    const int lost = expect_loss_at_every_write(
        folder_.path(), [](file_lease& lease) { return lease.extend({.ttl = 1h}).ok; });
    EXPECT_GT(lost, 0);
}

TEST_F(file_identity_test, a_release_whose_side_files_are_removed_meanwhile_reports_not_held) {
    const int lost = expect_loss_at_every_write(
        folder_.path(), [](file_lease& lease) { return lease.release().ok; });
    EXPECT_GT(lost, 0);
}

TEST_F(file_identity_test, symbolic_links_to_the_file_and_its_folder_lead_to_the_same_locks) {
    auto lease = open(path_).acquire("k", {.ttl = 1h});
    ASSERT_TRUE(lease);
    fs::create_symlink(path_, folder_ / "link.db");
    fs::create_directory_symlink(folder_.path(), folder_ / "folder");
    EXPECT_FALSE(open(folder_ / "link.db").acquire("k"));
    EXPECT_FALSE(open(folder_ / "folder/locks.db").acquire("k"));
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(file_identity_test, a_bind_mount_of_the_file_alone_is_refused) {
    auto lease = open(path_).acquire("k", {.ttl = 1h});
    ASSERT_TRUE(lease);
    constexpr int not_permitted = 97;
    fs::create_directory(folder_ / "data");
    const fs::path mounted = folder_ / "data/locks.db";
    std::ofstream(mounted).flush();
    child_process child([&] {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount(path_.c_str(), mounted.c_str(), nullptr, MS_BIND, nullptr) != 0) {
            return not_permitted;
        }
        const auto failure =
            expect_error(error_code::invalid_argument, [&] { (void)open(mounted).acquire("k"); });
        if (!failure) return 1;
        return std::string(failure->what()).find("folder") == std::string::npos ? 2 : 0;
    });
    const int code = child.wait();
    if (code == not_permitted) GTEST_SKIP() << "bind mounts need root";
    EXPECT_EQ(code, 0);
}

TEST_F(file_identity_test, a_holder_that_read_the_file_itself_finds_its_lock_lost) {
    const auto locks = open(path_);
    auto lease = locks.acquire("k", {.ttl = 500ms});
    ASSERT_TRUE(lease);
    {
        // Closing it drops all locks that the process has on the file (POSIX).
        std::ifstream checksum(path_, std::ios::binary);
        (void)std::distance(std::istreambuf_iterator<char>(checksum), {});
    }
    child_process other([&] { return open(path_).is_locked("k") ? 0 : 1; });
    ASSERT_EQ(other.wait(), 0);
    ASSERT_FALSE(fs::exists(path_.string() + "-wal")) << "the other process was not the last";
    if (lease->extend({.ttl = 1h}).ok) {
        EXPECT_FALSE(eventually([&] { return granted_to_another_process(); }, 3s));
    }
}

}  // namespace
}  // namespace syncguard::test
