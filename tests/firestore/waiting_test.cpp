/// Clients that wait for a lock in a store that sends no notifications.
#include "firestore/on_firestore.hpp"

#include <syncguard/lock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using std::chrono::steady_clock;

class firestore_waiting : public on_firestore {
  protected:
    [[nodiscard]] firestore::backend open_by_the_hosts_clock() const {
        return firestore::backend(
            {.project = project_->name(), .emulator_host = project_->emulator_host()},
            {.operation_timeout = 20s});
    }
};

TEST_F(firestore_waiting, each_of_eight_clients_that_lock_in_a_loop_gets_the_lock) {
    constexpr std::size_t clients = 8;
    std::array<std::atomic<int>, clients> grants{};
    std::array<std::atomic<int>, clients> timeouts{};
    const auto until = steady_clock::now() + 10s;
    {
        std::vector<std::jthread> crowd;
        for (std::size_t i = 0; i < clients; ++i) {
            crowd.emplace_back([&, i] {
                const auto locks = open_by_the_hosts_clock();
                while (steady_clock::now() < until) {
                    try {
                        lock(locks, "k", [&] { ++grants.at(i); });
                    } catch (const lock_error& failure) {
                        EXPECT_EQ(failure.code(), error_code::acquisition_timeout)
                            << failure.what();
                        ++timeouts.at(i);
                    }
                }
            });
        }
    }
    std::string shown;
    for (std::size_t i = 0; i < clients; ++i)
        shown += std::to_string(grants.at(i)) + " grants, " + std::to_string(timeouts.at(i)) +
                 " timeouts\n";
    for (std::size_t i = 0; i < clients; ++i) {
        EXPECT_GE(grants.at(i), 2) << shown;
        EXPECT_EQ(timeouts.at(i), 0) << shown;
    }
    RecordProperty("grants", shown);
}

TEST_F(firestore_waiting, a_later_client_gets_the_lock_from_one_that_locks_in_a_loop) {
    std::atomic<bool> done{false};
    std::atomic<int> grants{0};
    std::jthread looping([&] {
        const auto locks = open_by_the_hosts_clock();
        while (!done)
            lock(locks, "k", [&] { ++grants; });
    });
    while (grants < 10)
        std::this_thread::yield();
    EXPECT_NO_THROW(lock(open_by_the_hosts_clock(), "k", [] {}));
    done = true;
}

}  // namespace
}  // namespace syncguard::test
