/// Children created without fork handlers, as by `_Fork` or the bare system call: they hold no
/// locks of their parent and do not disturb it.
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#ifdef SYNCGUARD_WITH_REDIS
#include "support/redis_server.hpp"

#include <syncguard/redis.hpp>
#endif
#ifdef SYNCGUARD_WITH_SQLITE
#include "support/temporary_folder.hpp"

#include <syncguard/sqlite.hpp>
#endif

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

/// Uses the parent's objects in the child. Returns the child's exit code.
template <class Backend, class Lease>
int use_in_child(std::optional<Backend>& locks, std::optional<Lease>& lease) {
    if (lease->valid()) return 1;
    if (lease->release().ok || lease->extend().ok) return 2;
    lease.reset();
    try {
        (void)locks->is_locked("k");
        return 3;
    } catch (const lock_error&) {
    }
    locks.reset();
    return 0;
}

/// Acquires a lock, lets a bare child use the parent's objects, and checks that the parent is not
/// affected.
template <class Backend>
void expect_undisturbed(std::optional<Backend> locks, const Backend& other) {
    auto acquired = locks->acquire("k", {.ttl = 60s});
    ASSERT_TRUE(acquired);
    std::optional lease(*std::move(acquired));
    const pid_t child = ::_Fork();
    if (child == 0) {
        int code = 99;
        try {
            code = use_in_child(locks, lease);
        } catch (...) {
        }
        ::_exit(code);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    EXPECT_EQ(status, 0) << WEXITSTATUS(status);
    EXPECT_TRUE(lease->valid());
    EXPECT_FALSE(other.acquire("k"));
    EXPECT_TRUE(lease->extend({.ttl = 60s, .timeout = 2s}).ok);
    EXPECT_TRUE(lease->release().ok);
    EXPECT_TRUE(other.acquire("k"));
}

#ifdef SYNCGUARD_WITH_SQLITE
TEST(bare_child, on_sqlite_neither_releases_nor_disturbs) {
    const temporary_folder folder;
    const auto open = [&] { return sqlite::backend({.path = folder.path() / "locks.db"}); };
    expect_undisturbed(std::optional(open()), open());
}
#endif

#ifdef SYNCGUARD_WITH_REDIS
TEST(bare_child, on_redis_neither_releases_nor_disturbs) {
    const redis_server server;
    const auto open = [&] { return redis::backend({.host = "127.0.0.1", .port = server.port()}); };
    expect_undisturbed(std::optional(open()), open());
}
#endif

}  // namespace
}  // namespace syncguard::test
