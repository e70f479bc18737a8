/// What is known while one tries again, and what is remembered.
#include "../../src/firestore/attempts.hpp"

#include "../../src/firestore/bounded_memory.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <new>

namespace syncguard::firestore {
namespace {

using namespace std::chrono_literals;

lock_error reason() {
    return {error_code::service_unavailable, "x"};
}

TEST(attempts, go_on_after_a_conflict_if_something_has_changed) {
    attempts so_far;
    EXPECT_TRUE(so_far.is_first());
    so_far.failed(setback::conflict, reason(), "v1");
    EXPECT_NO_THROW(so_far.judge("v2"));
    EXPECT_THROW(so_far.judge("v1"), lock_error);
    EXPECT_FALSE(so_far.doubt());
}

TEST(attempts, go_on_among_others_though_nothing_has_changed) {
    attempts so_far;
    for (int i = 0; i < 100; ++i) {
        so_far.failed(setback::contention, reason(), "v");
        EXPECT_NO_THROW(so_far.judge("v"));
        EXPECT_LE(so_far.pause(0.999), 250ms);
    }
}

TEST(attempts, end_after_a_failure_and_after_three_losses) {
    attempts failed;
    failed.failed(setback::failed, reason(), "v");
    EXPECT_THROW(failed.judge("w"), lock_error);
    EXPECT_TRUE(failed.doubt());
    attempts lost;
    for (int i = 0; i < 2; ++i) {
        lost.failed(setback::lost, reason(), "v");
        EXPECT_NO_THROW(lost.judge("v"));
    }
    lost.failed(setback::lost, reason(), "v");
    EXPECT_THROW(lost.judge("v"), lock_error);
}

TEST(the_memory, forgets_the_oldest_beyond_a_fixed_number) {
    bounded_memory<int, std::string> memory;
    memory.remember(1, "a");
    memory.remember(2, "b");
    memory.remember(1, "c");
    EXPECT_EQ(memory.find(1), "c");
    for (int i = 3; i <= 4097; ++i)
        memory.remember(i, "x");
    EXPECT_FALSE(memory.find(1));
    EXPECT_TRUE(memory.find(2));
    memory.forget(2);
    EXPECT_FALSE(memory.find(2));
}

}  // namespace
}  // namespace syncguard::firestore
