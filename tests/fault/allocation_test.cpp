/// Out of memory at the Nth allocation of an acquisition, for every N up to the last allocation.
#include "support/failing_allocation.hpp"

#include <syncguard/memory.hpp>
#include <syncguard/telemetry.hpp>

#include <gtest/gtest.h>

#include <exception>

namespace syncguard::test {
namespace {

template <class Backend>
void expect_no_lock_is_lost(const Backend& locks) {
    long nth = 0;
    while (with_failing_allocation(nth, [&] {
        try {
            auto lease = locks.acquire("a key that is too long for the small string optimisation");
            if (lease) lease->release();
        } catch (const lock_error& failure) {
            EXPECT_EQ(failure.code(), error_code::internal);
        }
    })) {
        ++nth;
        // Whichever allocation failed: no lock without a holder remains.
        EXPECT_FALSE(locks.is_locked("a key that is too long for the small string optimisation"))
            << "allocation " << nth;
        ASSERT_LT(nth, 1000);
    }
    EXPECT_GT(nth, 2);
}

TEST(out_of_memory, an_acquisition_that_fails_leaves_nothing_locked) {
    expect_no_lock_is_lost(memory::backend());
}

TEST(out_of_memory, a_release_that_cannot_be_started_leaves_a_lease_that_can_be_released) {
    const memory::backend locks;
    long nth = 0;
    bool failed = false;
    do {
        auto lease = locks.acquire("a key that is too long for the small string optimisation");
        ASSERT_TRUE(lease);
        bool is_released = false;
        failed = with_failing_allocation(nth, [&] {
            detail::access::core(*lease).start_release(
                {}, {}, [&](std::exception_ptr failure, release_result result) {
                    is_released = !failure && result.ok;
                });
        });
        if (!is_released) is_released = lease->release().ok;
        EXPECT_TRUE(is_released) << "allocation " << nth;
        ASSERT_LT(++nth, 1000);
    } while (failed);
    EXPECT_GT(nth, 2);
}

TEST(out_of_memory, an_acquisition_with_telemetry_that_fails_leaves_nothing_locked) {
    const auto locks = with_telemetry(memory::backend(), {.on_event = [](const lock_event&) {}});
    (void)locks.is_locked("warm-up");
    expect_no_lock_is_lost(locks);
}

}  // namespace
}  // namespace syncguard::test
