/// What `is_locked` removes if the clean-up is enabled, and when.
#include "firestore/on_firestore.hpp"
#include "support/eventually.hpp"
#include "support/firestore_proxy.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/use_future.hpp>

#include <future>
#include <vector>

namespace syncguard::test {
namespace {

class firestore_cleanup : public on_firestore {
  protected:
    void SetUp() override {
        on_firestore::SetUp();
        if (!project_) return;
        project_->put("locks", "k",
                      lock_fields(lock_id::generate().to_string(), clock_.now() + 10s, "k"));
        project_->put("fence_counters", "fence:k",
                      R"({"fence":{"stringValue":"000000000000005"}})");
    }
    [[nodiscard]] bool is_stored() const { return project_->fields("locks", "k").has_value(); }
};

TEST_F(firestore_cleanup, removes_a_lock_later_than_the_guard_and_never_the_counter) {
    const auto cleaning = open({.cleanup_in_is_locked = true});
    clock_.advance(10s + 2001ms);
    EXPECT_FALSE(cleaning.is_locked("k"));
    EXPECT_TRUE(eventually([&] { return !is_stored(); }));
    EXPECT_TRUE(project_->fields("fence_counters", "fence:k"));
}

TEST_F(firestore_cleanup, does_not_remove_a_lock_before_the_guard) {
    for (const milliseconds later : {0ms, 10s + 999ms, 10s + 1000ms, 10s + 2000ms}) {
        const auto start = clock_.now();
        clock_.advance(later);
        {
            const auto cleaning = open({.cleanup_in_is_locked = true});
            EXPECT_EQ(cleaning.is_locked("k"), later < 11s);
            // The second query is answered after any clean-up that the first one started.
            (void)cleaning.is_locked("k");
        }
        EXPECT_TRUE(is_stored()) << later.count();
        clock_.advance(start - clock_.now());
    }
}

TEST_F(firestore_cleanup, happens_only_if_enabled) {
    clock_.advance(20s);
    EXPECT_FALSE(open().is_locked("k"));
    EXPECT_TRUE(is_stored());
}

TEST_F(firestore_cleanup, removes_a_lock_once_for_many_queries_and_then_pauses) {
    firestore_proxy proxy(project_->port());
    const firestore::backend cleaning({.project = project_->name(),
                                       .emulator_host = proxy.host(),
                                       .cleanup_in_is_locked = true,
                                       .clock = clock_.as_wall_clock()},
                                      {.operation_timeout = 20s});
    clock_.advance(20s);
    proxy.fail_all("commit", {.status = 503, .word = "UNAVAILABLE"});
    for (int round = 0; round < 3; ++round) {
        std::vector<std::future<bool>> answers;
        for (int i = 0; i < 32; ++i)
            answers.push_back(async_is_locked(cleaning, "k", {}, boost::asio::use_future));
        for (auto& each : answers)
            EXPECT_FALSE(each.get());
        ASSERT_TRUE(eventually([&] { return proxy.requests("commit") >= 1; }));
    }
    EXPECT_EQ(proxy.requests("commit"), 1U);
}

TEST_F(firestore_cleanup, of_one_key_does_not_delay_that_of_another) {
    project_->put("locks", "other",
                  lock_fields(lock_id::generate().to_string(), clock_.now() + 10s, "other"));
    const auto cleaning = open({.cleanup_in_is_locked = true});
    clock_.advance(20s);
    EXPECT_FALSE(cleaning.is_locked("k"));
    EXPECT_FALSE(cleaning.is_locked("other"));
    EXPECT_TRUE(eventually([&] { return !is_stored() && !project_->fields("locks", "other"); }));
}

TEST_F(firestore_cleanup, does_not_remove_a_lock_that_was_replaced_meanwhile) {
    firestore_proxy proxy(project_->port());
    const firestore::backend cleaning({.project = project_->name(),
                                       .emulator_host = proxy.host(),
                                       .cleanup_in_is_locked = true,
                                       .clock = clock_.as_wall_clock()},
                                      {.operation_timeout = 20s});
    clock_.advance(20s);
    proxy.fail_next("commit", {.mode = request_fault::ending::hold});
    EXPECT_FALSE(cleaning.is_locked("k"));
    ASSERT_TRUE(eventually([&] { return proxy.requests("commit") == 1; }));

    auto lease = open().acquire("k");
    ASSERT_TRUE(lease);
    proxy.resume();
    ASSERT_TRUE(eventually([&] { return proxy.forwarded("commit") == 1; }));
    EXPECT_TRUE(cleaning.is_locked("k"));
    EXPECT_TRUE(lease->release().ok);
}

}  // namespace
}  // namespace syncguard::test
