/// Firestore behind a bad network, and among many clients.
#include "firestore/firestore_fault.hpp"
#include "support/fault_proxy.hpp"
#include "support/loopback.hpp"

#include <boost/json.hpp>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>
#include <tuple>
#include <vector>

namespace syncguard::test {
namespace {

using cut = std::tuple<direction, closing>;

class firestore_cut : public testing::TestWithParam<cut> {
  protected:
    void SetUp() override {
        if (!shared_firestore_emulator()) GTEST_SKIP() << no_emulator;
        project_ = std::make_unique<firestore_project>();
        proxy_ = std::make_unique<fault_proxy>(project_->port());
    }
    std::unique_ptr<firestore_project> project_;
    std::unique_ptr<fault_proxy> proxy_;
};

INSTANTIATE_TEST_SUITE_P(
    all, firestore_cut,
    testing::Combine(testing::Values(direction::to_server, direction::to_client),
                     testing::Values(closing::orderly, closing::reset)),
    [](const auto& test) {
        return std::string(std::get<0>(test.param) == direction::to_server ? "request_"
                                                                           : "answer_") +
               (std::get<1>(test.param) == closing::orderly ? "orderly" : "reset");
    });

TEST_P(firestore_cut, a_pair_of_operations_survives_a_cut_at_any_place_without_leaving_a_lock) {
    const auto [way, mode] = GetParam();
    std::uint64_t last_fence = 0;
    // Prime steps: requests and answers are cut at different places each time.
    for (std::uint64_t bytes = 0;; bytes += 53) {
        // A new client, which has nothing cached and reads before it writes.
        const firestore::backend locks(
            {.project = project_->name(),
             .emulator_host = "127.0.0.1:" + std::to_string(proxy_->port())},
            quiet(20s));
        const auto cuts = proxy_->cuts();
        proxy_->arm_cut(way, bytes, mode);
        try {
            auto lease = locks.acquire("k", {.ttl = 60s});
            ASSERT_TRUE(lease) << bytes;
            const auto number = std::stoull(lease->fence().to_string());
            EXPECT_GT(number, last_fence) << bytes;
            last_fence = number;
            EXPECT_TRUE(lease->release().ok) << bytes;
        } catch (const lock_error& failure) {
            EXPECT_EQ(failure.code(), error_code::service_unavailable) << failure.what();
        }
        proxy_->disarm_cut();
        ASSERT_TRUE(eventually([&] { return project_->all("locks").empty(); })) << bytes;
        if (proxy_->cuts() == cuts) {
            EXPECT_GT(bytes, 500U);
            break;
        }
    }
}

TEST_P(firestore_cut, bytes_that_arrive_one_by_one_make_no_difference) {
    proxy_->slice(std::get<0>(GetParam()));
    const firestore::backend locks({.project = project_->name(),
                                    .emulator_host = "127.0.0.1:" + std::to_string(proxy_->port())},
                                   quiet(60s));
    auto lease = locks.acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease->release().ok);
}

class firestore_clients : public testing::Test {
  protected:
    void SetUp() override {
        if (!shared_firestore_emulator()) GTEST_SKIP() << no_emulator;
        project_ = std::make_unique<firestore_project>();
    }

    static constexpr int clients = 10;
    /// No call may hang, however slow the machine is.
    static constexpr auto longest_call = 20s;

    template <class Call>
    static auto timed(Call call) {
        const auto begin = steady_clock::now();
        auto result = call();
        EXPECT_LT(steady_clock::now() - begin, longest_call);
        return result;
    }

    /// Ten separate clients, each of which acquires `grants` locks and retries while its key is
    /// locked. Errors fail the test.
    void run(int grants, bool one_key) {
        std::atomic<int> granted{0};
        std::vector<std::jthread> threads;
        for (int i = 0; i < clients; ++i) {
            threads.emplace_back([&, i] {
                try {
                    const firestore::backend locks(
                        {.project = project_->name(), .emulator_host = project_->emulator_host()},
                        {.operation_timeout = 30s});
                    const std::string key = one_key ? "k" : "k" + std::to_string(i);
                    for (int n = 0; n < grants;) {
                        auto lease = timed([&] { return locks.acquire(key, {.ttl = 60s}); });
                        if (!lease) continue;
                        EXPECT_TRUE(timed([&] { return lease->extend({.ttl = 60s}); }).ok);
                        EXPECT_TRUE(timed([&] { return lease->release(); }).ok);
                        ++granted;
                        ++n;
                    }
                } catch (const lock_error& failure) {
                    ADD_FAILURE() << failure.what();
                }
            });
        }
        threads.clear();
        EXPECT_EQ(granted, clients * grants);
    }

    std::unique_ptr<firestore_project> project_;
};

TEST_F(firestore_clients, ten_on_ten_keys_see_no_error) {
    run(5, false);
    for (int i = 0; i < clients; ++i) {
        EXPECT_EQ(project_->fields("fence_counters", "fence:k" + std::to_string(i))
                      ->at("fence")
                      .at("stringValue"),
                  "000000000000005");
    }
}

TEST_F(firestore_clients, ten_on_one_key_see_no_error_and_no_repeated_fence) {
    run(5, true);
    EXPECT_EQ(project_->fields("fence_counters", "fence:k")->at("fence").at("stringValue"),
              "000000000000050");
}

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(firestore_connections, a_thousand_that_are_refused_leave_no_descriptor_open) {
    const reserved_port closed;
    const firestore::backend locks(
        {.project = "p", .emulator_host = "127.0.0.1:" + std::to_string(closed.number())},
        quiet(20s));
    const auto fail = [&] {
        expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
    };
    fail();
    const auto before = open_descriptors();
    for (int i = 0; i < 1'000; ++i)
        fail();
    EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace syncguard::test
