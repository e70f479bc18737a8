/// Leases that are renewed while other threads of the process do not run.
#include "contract/contract.hpp"
#include "support/eventually.hpp"
#include "support/loss_recorder.hpp"

#include <syncguard/lock.hpp>

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

/// Threads whose handler of SIGUSR1 returns only when this object is destroyed.
class stopped_threads {
  public:
    stopped_threads() {
        ::sem_init(&stopped_, 0, 0);
        ::sem_init(&may_go_on_, 0, 0);
        current_ = this;
        struct sigaction action {};
        action.sa_handler = [](int) { current_->stop_here(); };
        ::sigaction(SIGUSR1, &action, &former_);
    }
    stopped_threads(const stopped_threads&) = delete;
    stopped_threads& operator=(const stopped_threads&) = delete;
    ~stopped_threads() {
        for (int i = 0; i < count_; ++i)
            ::sem_post(&may_go_on_);
        while (running_handlers_ > 0)
            std::this_thread::yield();
        ::sigaction(SIGUSR1, &former_, nullptr);
    }

    /// Returns when the thread is in the handler.
    void stop(std::jthread& thread) {
        ++count_;
        ++running_handlers_;
        ::pthread_kill(thread.native_handle(), SIGUSR1);
        wait(stopped_);
    }

  private:
    static void wait(sem_t& semaphore) {
        while (::sem_wait(&semaphore) != 0 && errno == EINTR) {
        }
    }
    void stop_here() {
        const int saved = errno;
        ::sem_post(&stopped_);
        wait(may_go_on_);
        errno = saved;
        --running_handlers_;
    }

    static inline stopped_threads* current_ = nullptr;
    sem_t stopped_{};
    sem_t may_go_on_{};
    struct sigaction former_ {};
    int count_ = 0;
    std::atomic<int> running_handlers_{0};
};

class kept_lease : public testing::TestWithParam<engine_kind> {
  protected:
    static constexpr milliseconds ttl = 3s;
    static inline const std::array<std::string, 2> wanted{"wanted:1", "wanted:2"};

    /// Threads that do nothing but wait for a lock, each in its own call.
    std::vector<std::jthread> waiting_threads() {
        std::vector<std::jthread> threads;
        for (const auto& key : wanted) {
            std::promise<pid_t> number;
            auto thread_number = number.get_future();
            threads.emplace_back(
                [this, &key, number = std::move(number)](const std::stop_token& stop) mutable {
                    number.set_value(::gettid());
                    try {
                        (void)acquire_with_retries(locks_, key,
                                                   {.timeout = milliseconds::max(),
                                                    .retry = {.max_retries = 1'000'000},
                                                    .stop = stop});
                    } catch (const lock_error&) {  // the test has requested stop
                    }
                });
            const auto tid = thread_number.get();
            int looks_asleep = 0;
            EXPECT_TRUE(eventually([&] {
                looks_asleep = is_asleep(tid) ? looks_asleep + 1 : 0;
                return looks_asleep == 50;
            }));
        }
        return threads;
    }
    static bool is_asleep(pid_t thread) {
        std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/stat");
        std::string line;
        std::getline(status, line);
        const auto end_of_name = line.rfind(')');
        return end_of_name != std::string::npos && line.substr(end_of_name).starts_with(") S");
    }
    void lock_wanted_keys() {
        const auto others = fixture_->open();
        for (const auto& key : wanted)
            (void)others.acquire(key, {.ttl = 10min})->detach();
    }
    static bool lasts(const any_lease& lease, milliseconds time) {
        const auto until = lease_clock::now() + time;
        (void)eventually([&] { return lease_clock::now() >= until || !lease.valid(); }, time + 20s);
        return lease.valid();
    }

    std::unique_ptr<engine_fixture> fixture_ = GetParam().make();
    any_backend locks_ = fixture_->open();
    loss_recorder losses_;
};

SYNCGUARD_RUN_ON_ENGINES(kept_lease, all_engines());

TEST_P(kept_lease, is_renewed_while_threads_that_waited_before_it_are_stopped_by_their_handlers) {
    lock_wanted_keys();
    auto waiting = waiting_threads();
    auto lease = locks_.acquire("kept", {.ttl = ttl});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    lease->keep_alive();
    // The leader hands the event loop over after its current step, at the latest at the first
    // renewal.
    ASSERT_TRUE(eventually([&] { return lease->remaining() < ttl * 5 / 6; }));
    ASSERT_TRUE(eventually([&] { return lease->remaining() > ttl * 5 / 6; }));
    {
        stopped_threads stopped;
        for (auto& each : waiting)
            stopped.stop(each);
        EXPECT_TRUE(lasts(*lease, ttl + 1s));
    }
    EXPECT_FALSE(losses_.any());
}

TEST_P(kept_lease, is_renewed_while_threads_that_waited_after_it_are_stopped_by_their_handlers) {
    lock_wanted_keys();
    auto lease = locks_.acquire("kept", {.ttl = ttl});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    lease->keep_alive();
    auto waiting = waiting_threads();
    {
        stopped_threads stopped;
        for (auto& each : waiting)
            stopped.stop(each);
        EXPECT_TRUE(lasts(*lease, ttl + 1s));
    }
    EXPECT_FALSE(losses_.any());
}

TEST_P(kept_lease, that_is_released_returns_the_io_to_callers) {
    for (int round = 0; round < 20; ++round) {
        auto lease = locks_.acquire("kept", {.ttl = ttl});
        ASSERT_TRUE(lease);
        lease->keep_alive();
        auto second = locks_.acquire("another", {.ttl = ttl});
        ASSERT_TRUE(second);
        EXPECT_TRUE(lease->release());
        EXPECT_TRUE(second->release());
    }
}

}  // namespace
}  // namespace syncguard::test
