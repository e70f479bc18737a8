/// The server's Date header beside this host's clock.
#include "local_google.hpp"
#include "on_firestore.hpp"
#include "support/expect_error.hpp"

#include <chrono>
#include <ctime>

namespace syncguard::test {
namespace {

/// The time of a server whose clock is that far ahead.
std::function<std::string()> ahead_by(milliseconds difference) {
    return [difference] {
        const auto shown =
            std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(
                std::chrono::system_clock::now() + difference));
        std::tm parts{};
        ::gmtime_r(&shown, &parts);
        std::array<char, 64> text{};
        const auto length =
            std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
        return std::string(text.data(), length);
    };
}

class clock_check : public testing::Test {
  protected:
    [[nodiscard]] firestore::backend open(firestore::on_clock_skew policy) {
        return firestore::backend(options(policy), {.operation_timeout = 20s,
                                                    .on_release_error = {},
                                                    .dispose_timeout = {},
                                                    .on_warning = warnings_.handler()});
    }
    [[nodiscard]] firestore::options options(firestore::on_clock_skew policy = {}) const {
        return {.project = "p",
                .emulator_host = "127.0.0.1:" + std::to_string(google_.server().port()),
                .on_clock_skew = policy};
    }
    local_firestore google_;
    warnings warnings_;
};

TEST_F(clock_check, measures_the_difference_in_either_direction) {
    for (const milliseconds difference : {0ms, 300ms, -300ms, 5000ms, -5000ms}) {
        google_.show_date(ahead_by(difference));
        const auto skew = firestore::measure_clock_skew(options(), 30s);
        EXPECT_LE(skew.at_least, difference);
        EXPECT_GE(skew.at_most, difference);
        EXPECT_LE(skew.at_most - skew.at_least, 60ms);
    }
}

TEST_F(clock_check, fails_where_the_server_does_not_tell_the_time) {
    expect_error(error_code::service_unavailable,
                 [&] { (void)firestore::measure_clock_skew(options(), 20s); });
    google_.show_date([] { return std::string("yesterday"); });
    expect_error(error_code::service_unavailable,
                 [&] { (void)firestore::measure_clock_skew(options(), 20s); });
}

TEST_F(clock_check, says_nothing_of_clocks_that_agree) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    for (int i = 0; i < 20; ++i)
        EXPECT_TRUE(locks.acquire("k" + std::to_string(i)));
    EXPECT_TRUE(warnings_.all().empty());
}

TEST_F(clock_check, warns_once_of_clocks_that_differ) {
    google_.show_date(ahead_by(-2500ms));
    const auto locks = open(firestore::on_clock_skew::warn);
    for (int i = 0; i < 5; ++i)
        EXPECT_TRUE(locks.acquire("k" + std::to_string(i)));
    const auto messages = warnings_.all();
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_NE(messages[0].find("NTP"), std::string::npos) << messages[0];
}

TEST_F(clock_check, refuses_to_lock_by_a_wrong_clock_if_told_to_but_always_releases) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    auto lease = locks.acquire("k");
    ASSERT_TRUE(lease);
    google_.show_date(ahead_by(2500ms));
    expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("other"); });
    const auto commits = google_.commits();
    expect_error(error_code::service_unavailable, [&] { (void)lease->extend({.ttl = 5s}); });
    EXPECT_EQ(google_.commits(), commits);
    EXPECT_TRUE(lease->release().ok);
    EXPECT_FALSE(warnings_.all().empty());
}

}  // namespace
}  // namespace syncguard::test
