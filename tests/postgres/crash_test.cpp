/// A PostgreSQL server that crashes or is shut down while clients use it.
#include "postgres/postgres_fault.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

/// Threads that acquire and release, and record the fences.
class workers {
  public:
    workers(const any_backend& locks, int count) {
        for (int i = 0; i < count; ++i) {
            threads_.emplace_back([this, &locks, key = "k" + std::to_string(i % 2)](
                                      const std::stop_token& stop) { work(locks, key, stop); });
        }
    }
    [[nodiscard]] int granted() const { return granted_; }
    [[nodiscard]] int failed() const { return failed_; }
    void stop() { threads_.clear(); }
    /// The greatest fence of each key.
    [[nodiscard]] const std::map<std::string, fence>& last() const { return last_; }

  private:
    void work(const any_backend& locks, const std::string& key, const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            try {
                auto lease = locks.acquire(key, {.ttl = 2s, .timeout = 2s});
                if (!lease) continue;
                {
                    const std::lock_guard guard(mutex_);
                    auto& last = last_[key];
                    EXPECT_GT(lease->fence(), last);
                    last = std::max(last, lease->fence());
                }
                ++granted_;
                (void)lease->release();
            } catch (const lock_error& failure) {
                ++failed_;
                EXPECT_TRUE(failure.code() == error_code::service_unavailable ||
                            failure.code() == error_code::network_timeout)
                    << failure.what();
            }
        }
    }

    std::mutex mutex_;
    std::map<std::string, fence> last_;
    std::atomic<int> granted_{0};
    std::atomic<int> failed_{0};
    std::vector<std::jthread> threads_;
};

class postgres_crash : public testing::Test {
  protected:
    void check_fences(const workers& done) {
        for (const auto& [key, last] : done.last()) {
            const auto counter = server_.value(
                "SELECT lpad(fence::text, 15, '0') FROM syncguard_fence_counters WHERE key_debug = "
                "$1",
                {key});
            EXPECT_LE(last.to_string(), counter);
        }
    }

    postgres_server server_{{.durable = true}};
    any_backend locks_ = postgres::backend({.connection = server_.url()}, quiet());
};

TEST_F(postgres_crash, fences_rise_across_kill_9_under_load) {
    workers at_work(locks_, 4);
    for (int round = 1; round <= 2; ++round) {
        const int before = at_work.granted();
        ASSERT_TRUE(eventually([&] { return at_work.granted() > before + 20; }, 60s));
        const int failures = at_work.failed();
        server_.kill();
        ASSERT_TRUE(eventually([&] { return at_work.failed() > failures; }));
        server_.restart();
    }
    const int before = at_work.granted();
    // Locks that were held at the crash must expire first.
    ASSERT_TRUE(eventually([&] { return at_work.granted() > before + 20; }, 60s));
    at_work.stop();
    check_fences(at_work);
}

TEST_F(postgres_crash, an_orderly_shutdown_is_reported_as_unavailability) {
    workers at_work(locks_, 4);
    ASSERT_TRUE(eventually([&] { return at_work.granted() > 20; }, 60s));
    server_.shut_down();
    ASSERT_TRUE(eventually([&] { return at_work.failed() > 0; }));
    server_.restart();
    const int before = at_work.granted();
    ASSERT_TRUE(eventually([&] { return at_work.granted() > before + 20; }, 60s));
    at_work.stop();
    check_fences(at_work);
}

}  // namespace
}  // namespace syncguard::test
