#include <syncguard/fence.hpp>
#include <syncguard/lock.hpp>
#include <syncguard/memory.hpp>

#include <gtest/gtest.h>

#include <sstream>

namespace syncguard::test {
namespace {

TEST(fence, text_order_is_number_order) {
    const std::uint64_t counters[] = {
        0, 1, 9, 10, 99, 100, 90'000'000'000'000, 900'000'000'000'000};
    for (std::size_t i = 1; i < std::size(counters); ++i) {
        EXPECT_LT(fence::from_counter(counters[i - 1]), fence::from_counter(counters[i]));
        EXPECT_LT(fence::from_counter(counters[i - 1]).to_string(),
                  fence::from_counter(counters[i]).to_string());
    }
}

TEST(fence, only_fifteen_digits_are_a_fence) {
    for (const char* text : {"", "1", "00000000000001", "0000000000000001", "00000000000000a",
                             "-00000000000001", " 00000000000001"}) {
        EXPECT_FALSE(fence::parse(text)) << text;
    }
}

TEST(fence, prints_as_its_text) {
    std::ostringstream out;
    out << fence::from_counter(42);
    EXPECT_EQ(out.str(), "000000000000042");
}

// ADR-008: whether there is a fence is known at compile time.
struct without_fences {
    static constexpr bool supports_fencing = false;
};
static_assert(has_fence<lease<memory::capabilities>>);
static_assert(has_fence<lease<any_capabilities>>);
static_assert(!has_fence<lease<without_fences>>);
static_assert(has_fence<held>);
static_assert(!has_fence<unfenced_held>);
static_assert(std::same_as<held_for<memory::capabilities>, held>);
static_assert(std::same_as<held_for<without_fences>, unfenced_held>);

template <class Info>
concept info_has_fence = requires(const Info& info) {
    info.fence;
};
static_assert(info_has_fence<lock_info<any_capabilities>>);
static_assert(!info_has_fence<lock_info<without_fences>>);

static_assert(lock_backend<memory::backend>);
static_assert(lock_backend<basic_backend<without_fences>>);
static_assert(std::convertible_to<memory::backend, any_backend>);
static_assert(!std::convertible_to<basic_backend<without_fences>, any_backend>);

static_assert(!std::copy_constructible<lease<any_capabilities>>);
static_assert(std::is_nothrow_move_constructible_v<lease<any_capabilities>>);
static_assert(std::is_nothrow_destructible_v<lease<any_capabilities>>);

}  // namespace
}  // namespace syncguard::test
