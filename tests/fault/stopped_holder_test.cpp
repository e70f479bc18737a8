/// Holder processes that are stopped, killed or forked while their locks are renewed. Not run under
/// sanitizers, which do not support threads after a fork.
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/loss_recorder.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/connect.hpp>
#include <syncguard/lock.hpp>
#include <syncguard/memory.hpp>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <new>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

/// Shared memory by which the processes of a test communicate.
struct notes {
    std::atomic<bool> ready{false};
    std::atomic<lease_clock::rep> last_trusted{0};
    std::atomic<pid_t> grandchild{0};
    std::atomic<bool> grandchild_minds{false};
};

class shared_notes {
  public:
    shared_notes()
        : page_(::mmap(nullptr, sizeof(notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) {
        if (page_ == MAP_FAILED) throw std::bad_alloc();
        new (page_) notes;
    }
    shared_notes(const shared_notes&) = delete;
    shared_notes& operator=(const shared_notes&) = delete;
    ~shared_notes() { ::munmap(page_, sizeof(notes)); }
    notes* operator->() const { return static_cast<notes*>(page_); }

  private:
    void* page_;
};

lease_clock::rep now() {
    return lease_clock::now().time_since_epoch().count();
}

struct shared_store {
    std::string name;
    friend std::ostream& operator<<(std::ostream& out, const shared_store& store) {
        return out << store.name;
    }
};

class stopped_holder : public testing::TestWithParam<shared_store> {
  protected:
    stopped_holder() {
        if (GetParam().name == "redis") server_.emplace();
    }
    [[nodiscard]] any_backend open() const {
        return connect(server_ ? server_->url() : "sqlite:" + (folder_ / "locks.db").string());
    }
    /// Waits until the lock is free, and acquires it.
    [[nodiscard]] lease<any_capabilities> take_over() const {
        return acquire_with_retries(open(), "k",
                                    {.ttl = 60s,
                                     .timeout = 30s,
                                     .retry = {.max_retries = retry_policy::unlimited_retries,
                                               .retry_delay = 50ms,
                                               .backoff = backoff::fixed}});
    }

    temporary_folder folder_;
    std::optional<redis_server> server_;
    shared_notes notes_;
};

TEST_P(stopped_holder, past_its_ttl_finds_its_lease_invalid_before_it_does_anything_else) {
    child_process holder([&] {
        loss_recorder losses;
        const auto locks = open();
        auto lease = locks.acquire("k", {.ttl = 2s});
        if (!lease) return 1;
        lease->on_lost(losses.handler());
        const auto stop = lease->stop_token();
        lease->keep_alive();
        while (true) {
            const auto asked = now();
            if (!lease->valid()) break;
            notes_->last_trusted = asked;
            notes_->ready = true;
        }
        if (!eventually([&] { return losses.any() && stop.stop_requested(); })) return 2;
        if (losses.first().event.reason != loss_reason::expired) return 3;
        if (lease->valid()) return 4;
        // The lock that another client has acquired meanwhile is not released.
        return lease->release().ok ? 5 : 0;
    });
    ASSERT_TRUE(eventually([&] { return notes_->ready.load(); }));
    holder.stop();
    const auto stopped = now();
    auto taken_over = take_over();
    holder.kill(SIGCONT);
    EXPECT_EQ(holder.wait(), 0);
    EXPECT_LE(notes_->last_trusted.load(), stopped);
    EXPECT_TRUE(taken_over.extend({.ttl = 60s}).ok);
}

TEST_P(stopped_holder, in_lock_is_reported_by_an_outcome) {
    child_process holder([&] {
        try {
            lock(open(), "k",
                 [&](held& held) {
                     while (held.valid())
                         notes_->ready = true;
                 },
                 {.ttl = 2s, .auto_extend = true});
        } catch (const lock_lost& lost) {
            return lost.reason() == loss_reason::expired ? 0 : 1;
        }
        return 2;
    });
    ASSERT_TRUE(eventually([&] { return notes_->ready.load(); }));
    holder.stop();
    auto taken_over = take_over();
    holder.kill(SIGCONT);
    EXPECT_EQ(holder.wait(), 0);
    EXPECT_TRUE(taken_over.valid());
}

TEST_P(stopped_holder, that_forked_continues_and_its_child_does_not_renew) {
    child_process holder([&] {
        loss_recorder losses;
        const auto locks = open();
        auto lease = locks.acquire("k", {.ttl = 2s});
        if (!lease) return 1;
        lease->on_lost(losses.handler());
        lease->keep_alive();
        const pid_t grandchild = ::fork();
        if (grandchild == 0) {
            while (true) {
                if (losses.any() || lease->valid()) notes_->grandchild_minds = true;
                ::usleep(1000);
            }
        }
        notes_->grandchild = grandchild;
        const auto begin = lease_clock::now();
        if (!eventually([&] { return lease_clock::now() > begin + 4s; })) return 2;
        if (!lease->valid() || losses.any()) return 3;
        notes_->ready = true;
        return ::pause();
    });
    ASSERT_TRUE(eventually([&] { return notes_->ready.load(); }));
    EXPECT_FALSE(open().acquire("k"));
    holder.kill(SIGKILL);
    EXPECT_EQ(holder.wait(), 128 + SIGKILL);
    // The child continues with a copy of its parent's memory, and lets the lock expire.
    auto taken_over = take_over();
    EXPECT_TRUE(taken_over.valid());
    EXPECT_FALSE(notes_->grandchild_minds);
    EXPECT_EQ(::kill(notes_->grandchild, SIGKILL), 0);
}

TEST(kept_lease, in_a_forked_child_is_not_renewed_while_the_childs_own_leases_are) {
    const memory::backend locks;
    auto lease = locks.acquire("k", {.ttl = 2s});
    std::atomic<int> lost{0};
    lease->on_lost([&](const loss&) { ++lost; });
    lease->keep_alive();
    const auto token = lease->stop_token();
    child_process child([&] {
        if (lease->valid() || lease->extend().ok) return 1;
        lease->keep_alive();
        lease->on_lost([&](const loss&) { ++lost; });
        // Locks that the child acquires itself are renewed.
        auto own = locks.acquire("own", {.ttl = 2s});
        own->keep_alive();
        auto watched = locks.acquire("watched", {.ttl = 3s});
        auto end = watched->stop_token();
        if (!eventually([&] { return end.stop_requested(); })) return 2;
        if (!own->valid()) return 3;
        if (lost != 0 || token.stop_requested()) return 4;
        { const auto gone = std::move(*lease); }
        return lost == 0 ? 0 : 5;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(lease->valid());
    EXPECT_EQ(lost, 0);
    EXPECT_TRUE(lease->release().ok);
}

std::vector<shared_store> all_shared() {
    std::vector<shared_store> all;
#ifdef SYNCGUARD_WITH_REDIS
    all.push_back({"redis"});
#endif
#ifdef SYNCGUARD_WITH_SQLITE
    all.push_back({"sqlite"});
#endif
    return all;
}

INSTANTIATE_TEST_SUITE_P(on, stopped_holder, testing::ValuesIn(all_shared()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace syncguard::test
