/// Extensions that the server refused because it had forgotten the script, and that are resent.
#include "redis/on_redis.hpp"
#include "redis/scripts.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/fault_proxy.hpp"

#include <future>
#include <string>

namespace syncguard::test {
namespace {

class resent_extensions_in_redis : public on_redis {
  protected:
    void SetUp() override {
        command({"SCRIPT", "FLUSH"});
        command({"CONFIG", "RESETSTAT"});
        // Answers are held back, so that the client has several calls under way.
        proxy_.stall(direction::to_client);
    }

    std::future<extend_result> start_extend(milliseconds ttl) {
        return std::async(std::launch::async,
                          [this, ttl] { return locks_.extend(id_, {.ttl = ttl}); });
    }
    [[nodiscard]] bool refused_calls_become(int count) const {
        const auto expected = "errorstat_NOSCRIPT:count=" + std::to_string(count) + "\r";
        return eventually([&] {
            return command({"INFO", "errorstats"}).text.find(expected) != std::string::npos;
        });
    }
    [[nodiscard]] milliseconds ttl() const {
        return milliseconds(command({"PTTL", "syncguard:k"}).integer);
    }

    fault_proxy proxy_{server_.port()};
    const redis::backend locks_{{.port = proxy_.port()}};
    const std::string id_ = take(locks_, "k", 30s).to_string();
};

TEST_F(resent_extensions_in_redis, keep_their_order) {
    auto first = start_extend(5s);
    ASSERT_TRUE(refused_calls_become(1));
    auto second = start_extend(60s);
    ASSERT_TRUE(refused_calls_become(2));
    proxy_.resume(direction::to_client);
    EXPECT_TRUE(first.get().ok);
    EXPECT_TRUE(second.get().ok);
    EXPECT_EQ(ttl(), 60s);
}

TEST_F(resent_extensions_in_redis, keep_their_order_if_each_answer_arrives_separately) {
    auto first = start_extend(5s);
    ASSERT_TRUE(refused_calls_become(1));
    auto second = start_extend(60s);
    ASSERT_TRUE(refused_calls_become(2));
    auto third = start_extend(40s);
    ASSERT_TRUE(refused_calls_become(3));
    proxy_.slice(direction::to_client, true, 1ms);
    proxy_.resume(direction::to_client);
    EXPECT_TRUE(first.get().ok);
    EXPECT_TRUE(second.get().ok);
    EXPECT_TRUE(third.get().ok);
    EXPECT_EQ(ttl(), 40s);
}

TEST_F(resent_extensions_in_redis, fail_if_a_later_one_of_the_same_lock_was_executed) {
    auto first = start_extend(5s);
    ASSERT_TRUE(refused_calls_become(1));
    command({"SCRIPT", "LOAD", std::string(redis::lock_script().text)});
    auto second = start_extend(60s);
    ASSERT_TRUE(eventually([&] { return ttl() == 60s; }));
    proxy_.resume(direction::to_client);
    EXPECT_TRUE(second.get().ok);
    expect_error(error_code::service_unavailable, [&] { (void)first.get(); });
    EXPECT_EQ(ttl(), 60s);
}

}  // namespace
}  // namespace syncguard::test
