/// Out of memory at the Nth allocation of an acquisition, for every N, until none is left to fail.
#include <syncguard/memory.hpp>
#include <syncguard/telemetry.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

/// How many allocations of this thread succeed before one fails; negative: all.
thread_local long allocations_left = -1;

void* allocate(std::size_t size) {
    if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
    if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
    throw std::bad_alloc();
}

}  // namespace

// Not inlined: the compiler would see memory of `new` go to `free` and object.
[[gnu::noinline]] void* operator new(std::size_t size) {
    return allocate(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace syncguard::test {
namespace {

/// Fails the `nth` allocation inside `body`; false if it was not reached.
template <class Body>
bool with_failing_allocation(long nth, Body body) {
    allocations_left = nth;
    try {
        body();
    } catch (const lock_error& failure) {
        allocations_left = -1;
        EXPECT_EQ(failure.code(), error_code::internal);
    } catch (const std::bad_alloc&) {
        allocations_left = -1;
    }
    const bool struck = allocations_left < 0;
    allocations_left = -1;
    return struck;
}

template <class Backend>
void expect_no_lock_is_lost(const Backend& locks) {
    long nth = 0;
    while (with_failing_allocation(nth, [&] {
        auto lease = locks.acquire("a key that is too long for the small string optimisation");
        if (lease) lease->release();
    })) {
        ++nth;
        // Whatever failed, and wherever: nothing stays locked that nobody holds.
        EXPECT_FALSE(locks.is_locked("a key that is too long for the small string optimisation"))
            << "allocation " << nth;
        ASSERT_LT(nth, 1000);
    }
    EXPECT_GT(nth, 2);
}

TEST(out_of_memory, an_acquisition_that_fails_leaves_nothing_locked) {
    expect_no_lock_is_lost(memory::backend());
}

TEST(out_of_memory, telemetry_does_not_change_that) {
    const auto locks = with_telemetry(memory::backend(), {.on_event = [](const lock_event&) {}});
    (void)locks.is_locked("warm-up");
    expect_no_lock_is_lost(locks);
}

}  // namespace
}  // namespace syncguard::test
