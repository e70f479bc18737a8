/// Destruction of a Firestore backend: during calls, and from within handlers.
#include "firestore/firestore_fault.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>

#include <future>
#include <optional>
#include <vector>

namespace syncguard::test {
namespace {

class firestore_end : public testing::Test {
  protected:
    void SetUp() override {
        if (!shared_firestore_emulator()) GTEST_SKIP() << no_emulator;
        project_ = std::make_unique<firestore_project>();
    }
    [[nodiscard]] std::optional<any_backend> open() const {
        return firestore::backend(
            {.project = project_->name(), .emulator_host = project_->emulator_host()}, quiet(30s));
    }
    std::unique_ptr<firestore_project> project_;
};

TEST_F(firestore_end, calls_that_are_under_way_are_completed) {
    for (int round = 0; round < 3; ++round) {
        auto locks = open();
        std::vector<std::future<any_result>> calls;
        for (int i = 0; i < 20; ++i) {
            calls.push_back(async_acquire(*locks, "key:" + std::to_string(i), {.ttl = 60s},
                                          boost::asio::use_future));
        }
        locks.reset();
        for (auto& each : calls) {
            auto lease = each.get();
            ASSERT_TRUE(lease);
            EXPECT_TRUE(lease->release().ok);
        }
    }
    EXPECT_TRUE(project_->all("locks").empty());
}

TEST_F(firestore_end, leases_that_no_handler_took_are_released_after_it) {
    {
        boost::asio::io_context io;
        auto locks = open();
        for (int i = 0; i < 10; ++i) {
            async_acquire(*locks, "key:" + std::to_string(i), {.ttl = 60s},
                          boost::asio::bind_executor(
                              io, [](const std::exception_ptr&, const any_result&) {}));
        }
        locks.reset();
        io.run();
    }
    EXPECT_TRUE(eventually([&] { return project_->all("locks").empty(); }));
}

TEST_F(firestore_end, may_come_from_within_a_completion) {
    for (int round = 0; round < 5; ++round) {
        auto locks = std::make_shared<std::optional<any_backend>>(open());
        std::promise<bool> ended;
        async_is_locked(**locks, "k", {},
                        boost::asio::bind_executor(
                            boost::asio::system_executor(),
                            [&ended, locks](const std::exception_ptr& failure, bool locked) {
                                locks->reset();
                                ended.set_value(!failure && !locked);
                            }));
        EXPECT_TRUE(ended.get_future().get());
    }
}

TEST_F(firestore_end, does_not_wait_for_a_server_that_never_answers) {
    firestore_proxy proxy(project_->port());
    proxy.fail_next("batchGet", {.mode = request_fault::ending::stall});
    const auto begin = steady_clock::now();
    {
        const firestore::backend locks({.project = project_->name(), .emulator_host = proxy.host()},
                                       quiet(500ms));
        expect_error(error_code::network_timeout, [&] { (void)locks.is_locked("k"); });
    }
    EXPECT_LT(steady_clock::now() - begin, 500ms + margin);
}

}  // namespace
}  // namespace syncguard::test
