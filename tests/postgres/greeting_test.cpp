/// The server's clock in the answer to the greeting.
#include "postgres/greeting.hpp"

#include "support/expect_error.hpp"

#include <chrono>
#include <string>

namespace syncguard::test {
namespace {

TEST(postgres_clock, that_would_overflow_is_refused) {
    const auto clock_in = [](const std::string& text) {
        return postgres::clock_in({{text}}, "PostgreSQL at somewhere");
    };
    EXPECT_EQ(clock_in("1700000000000"), unix_time(milliseconds(1'700'000'000'000)));
    for (const auto* text : {"9223372036854775807", "-9223372036854775808", "1.5", ""})
        expect_error(error_code::internal, [&] { (void)clock_in(text); });
}

}  // namespace
}  // namespace syncguard::test
