/// Out of memory in the Firestore engine: the Nth allocation of a caller fails.
#include "support/eventually.hpp"
#include "support/failing_allocation.hpp"
#include "support/firestore_emulator.hpp"
#include "support/test_seed.hpp"

#include <syncguard/async.hpp>
#include <syncguard/firestore.hpp>

#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr const char* key = "a key that is too long for the small string optimisation";

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class firestore_out_of_memory : public testing::Test {
  protected:
    void SetUp() override {
        if (!shared_firestore_emulator()) GTEST_SKIP() << no_emulator;
        project_ = std::make_unique<firestore_project>();
    }

    [[nodiscard]] any_backend open() const {
        return firestore::backend(
            {.project = project_->name(), .emulator_host = project_->emulator_host()},
            {.operation_timeout = 5s,
             .on_release_error = [](const lock_error&, const release_error_context&) {},
             .dispose_timeout = {},
             .on_warning = {}});
    }

    /// Runs `action` with every seventh of its allocations failing, since all would take long; the
    /// seed of the run chooses which. Whatever the result: the call returns in time, the next call
    /// succeeds, and nothing stays locked or open.
    template <class Prepare, class Action>
    void fail_allocations_of(Prepare prepare, Action action) {
        constexpr long step = 7;
        std::size_t descriptors = 0;
        bool struck = true;
        auto nth = static_cast<long>(test_seed() % step);
        for (; struck; nth += step) {
            ASSERT_LT(nth, 10'000);
            {
                const auto locks = open();
                prepare(locks);
                const auto begin = steady_clock::now();
                struck = with_failing_allocation(nth, [&] {
                    try {
                        action(locks);
                    } catch (const lock_error&) {
                        // The error depends on the allocation that failed.
                    }
                });
                EXPECT_LT(steady_clock::now() - begin, 5s + 2s) << "allocation " << nth;
                ASSERT_NO_THROW((void)locks.is_locked("other")) << "allocation " << nth;
            }
            EXPECT_TRUE(eventually([&] { return !project_->fields("locks", key); }))
                << "allocation " << nth;
            if (descriptors == 0) descriptors = open_descriptors();
            // The last owner of the backend may be a thread of the library.
            EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }))
                << "allocation " << nth;
        }
        EXPECT_GT(nth, 2 * step);
    }

    std::unique_ptr<firestore_project> project_;
};

TEST_F(firestore_out_of_memory, while_it_connects_a_caller_leaves_nothing_locked) {
    fail_allocations_of([](const any_backend&) {},
                        [](const any_backend& locks) {
                            auto lease = locks.acquire(key, {.ttl = 60s});
                            if (lease) lease->release();
                        });
}

TEST_F(firestore_out_of_memory, on_an_existing_connection_a_caller_leaves_nothing_locked) {
    fail_allocations_of([](const any_backend& locks) { (void)locks.is_locked("warm-up"); },
                        [](const any_backend& locks) {
                            auto lease = locks.acquire(key, {.ttl = 60s});
                            if (lease) lease->release();
                        });
}

TEST_F(firestore_out_of_memory, an_asynchronous_caller_leaves_nothing_locked) {
    fail_allocations_of(
        [](const any_backend& locks) {
            // Asio's system executor, created at first use, does not survive allocation failures.
            (void)async_is_locked(locks, "warm-up", {}, boost::asio::use_future).get();
        },
        [](const any_backend& locks) {
            auto result = async_acquire(locks, key, {.ttl = 60s}, boost::asio::use_future);
            if (auto lease = result.get()) lease->release();
        });
}

}  // namespace
}  // namespace syncguard::test
