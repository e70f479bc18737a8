/// Contention for one lock among threads, and among processes.
#include "contract/contract.hpp"
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/connect.hpp>
#include <syncguard/lock.hpp>

#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

namespace syncguard::test {
namespace {

SYNCGUARD_CONTRACT(contention);

TEST_P(contention, at_most_one_of_many_threads_holds_the_lock_and_fences_are_in_order) {
    constexpr int threads = 8;
    constexpr int grants_each = 15;
    std::atomic<int> inside{0};
    std::atomic<int> violations{0};
    std::mutex mutex;
    std::vector<fence> in_order_of_grant;
    {
        std::vector<std::jthread> workers;
        for (int i = 0; i < threads; ++i) {
            workers.emplace_back([&] {
                const auto form = std::get<1>(GetParam()).make();
                for (int granted = 0; granted < grants_each;) {
                    auto lease = form->acquire(locks_, "k", {.ttl = 60s}, {});
                    if (!lease) {
                        std::this_thread::yield();
                        continue;
                    }
                    if (++inside != 1) ++violations;
                    {
                        const std::lock_guard guard(mutex);
                        in_order_of_grant.push_back(lease->fence());
                    }
                    --inside;
                    if (!form->release(*lease).ok) ++violations;
                    ++granted;
                }
            });
        }
    }
    EXPECT_EQ(violations, 0);
    ASSERT_EQ(in_order_of_grant.size(), static_cast<std::size_t>(threads * grants_each));
    for (std::size_t i = 0; i < in_order_of_grant.size(); ++i) {
        EXPECT_EQ(in_order_of_grant[i], fence::from_counter(i + 1));
    }
}

TEST_P(contention, exactly_one_of_many_concurrent_releases_succeeds) {
    for (int round = 0; round < 10; ++round) {
        const auto id = take("k");
        std::atomic<int> succeeded{0};
        {
            std::vector<std::jthread> workers;
            for (int i = 0; i < 6; ++i) {
                workers.emplace_back([&] {
                    if (locks_.release(id).ok) ++succeeded;
                });
            }
        }
        EXPECT_EQ(succeeded, 1);
    }
}

/// Adds one to a number in a file by a read and a write, which loses updates unless a lock protects
/// them. Returns false if the resource has seen a greater fence.
bool update_shared_file(const std::filesystem::path& path, const fence& token) {
    long count = 0;
    std::string seen;
    std::ifstream(path) >> count >> seen;
    if (!seen.empty() && token.str() <= seen) return false;
    std::this_thread::yield();
    std::ofstream(path, std::ios::trunc) << count + 1 << ' ' << token.str();
    return true;
}

class process_contention : public testing::TestWithParam<engine_kind> {
  protected:
    std::unique_ptr<engine_fixture> fixture_ = GetParam().make();
};

// A build with only the memory engine has no store that processes can share.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(process_contention);
SYNCGUARD_RUN_ON_ENGINES(process_contention, shared_engines());

TEST_P(process_contention, no_update_is_lost_and_the_resource_sees_rising_fences) {
    constexpr int processes = 4;
    constexpr int updates_each = 25;
    const temporary_folder folder;
    const auto shared = folder / "shared";
    {
        std::vector<std::unique_ptr<child_process>> children;
        for (int i = 0; i < processes; ++i) {
            children.push_back(std::make_unique<child_process>([&] {
                const auto locks = connect(fixture_->url());
                for (int update = 0; update < updates_each; ++update) {
                    bool in_order = false;
                    lock(locks, "k",
                         [&](held& held) { in_order = update_shared_file(shared, held.fence()); },
                         {.timeout = 60s,
                          .retry = {.max_retries = retry_policy::unlimited_retries,
                                    .retry_delay = 1ms,
                                    .max_delay = 5ms}});
                    if (!in_order) return 1;
                }
                return 0;
            }));
        }
        for (auto& child : children)
            EXPECT_EQ(child->wait(), 0);
    }
    long count = 0;
    std::ifstream(shared) >> count;
    EXPECT_EQ(count, processes * updates_each);
}

}  // namespace
}  // namespace syncguard::test
