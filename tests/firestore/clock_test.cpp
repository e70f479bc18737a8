/// The server's Date header compared with this host's clock.
#include "firestore/local_google.hpp"
#include "firestore/on_firestore.hpp"
#include "support/cancelled_thread.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <future>
#include <memory>
#include <utility>

namespace syncguard::test {
namespace {

std::string as_date(unix_time time) {
    const auto shown =
        std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(time));
    std::tm parts{};
    ::gmtime_r(&shown, &parts);
    std::array<char, 64> text{};
    const auto length =
        std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    return {text.data(), length};
}

/// The Date of a server whose clock is this far ahead.
std::function<std::string()> ahead_by(milliseconds difference) {
    return [difference] {
        return as_date(std::chrono::floor<milliseconds>(std::chrono::system_clock::now()) +
                       difference);
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

TEST_F(clock_check, a_cancelled_thread_ends_after_its_measurement) {
    google_.show_date(ahead_by(0ms));
    EXPECT_TRUE(
        returns_on_cancelled_thread([&] { (void)firestore::measure_clock_skew(options(), 30s); }));
}

TEST_F(clock_check, measures_as_closely_as_a_distant_server_allows) {
    google_.show_date(ahead_by(300ms));
    google_.answer_after(150ms);
    const auto begin = std::chrono::steady_clock::now();
    const auto skew = firestore::measure_clock_skew(options(), 60s);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
    EXPECT_LE(skew.at_least, 300ms);
    EXPECT_GE(skew.at_most, 300ms);
    // After a single answer the range would be more than a second.
    EXPECT_LT(skew.at_most - skew.at_least, 1s);
}

TEST_F(clock_check, returns_what_is_known_when_its_time_ends) {
    google_.show_date([] { return as_date(unix_time(1'000'000s)); });
    auto store = options();
    // Both clocks stand still: later answers prove no more than the first.
    store.clock = [] { return unix_time(1'000'000s); };
    const auto skew = firestore::measure_clock_skew(store, 300ms);
    EXPECT_EQ(skew.at_least, 0ms);
    EXPECT_EQ(skew.at_most, 999ms);
}

TEST_F(clock_check, tolerates_a_clock_that_is_set_back_during_the_measurement) {
    google_.show_date(ahead_by(0ms));
    auto store = options();
    std::atomic<int> calls{0};
    store.clock = [&calls] {
        const auto now = std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
        return calls++ == 0 ? now : now - 5s;
    };
    const auto skew = firestore::measure_clock_skew(store, 30s);
    EXPECT_LE(skew.at_least, 5s);
    EXPECT_GE(skew.at_most, 5s);
}

TEST_F(clock_check, fails_if_the_server_sends_no_date) {
    expect_error(error_code::service_unavailable,
                 [&] { (void)firestore::measure_clock_skew(options(), 20s); });
    google_.show_date([] { return std::string("yesterday"); });
    expect_error(error_code::service_unavailable,
                 [&] { (void)firestore::measure_clock_skew(options(), 20s); });
}

TEST_F(clock_check, does_not_warn_of_clocks_that_agree) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    for (int i = 0; i < 20; ++i)
        EXPECT_TRUE(locks.acquire("k" + std::to_string(i)));
    EXPECT_TRUE(warnings_.all().empty());
}

TEST_F(clock_check, refuses_to_lock_with_a_wrong_clock_by_default) {
    google_.show_date(ahead_by(2500ms));
    EXPECT_EQ(firestore::parse_url("firestore://p").on_clock_skew,
              firestore::on_clock_skew::refuse);
    const auto locks = open(firestore::options{}.on_clock_skew);
    expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
    EXPECT_EQ(google_.commits(), 0U);
}

TEST_F(clock_check, refuses_the_first_lock_even_if_one_answer_does_not_prove_the_clock_wrong) {
    // The tolerance covers two clients whose clocks are wrong by half of it in opposite directions.
    for (const milliseconds difference : {700ms, -700ms, 1000ms, -1000ms, 1300ms, -1300ms}) {
        SCOPED_TRACE(difference.count());
        google_.show_date(ahead_by(difference));
        const auto locks = open(firestore::on_clock_skew::refuse);
        expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
    }
    EXPECT_EQ(google_.commits(), 0U);
}

TEST_F(clock_check, compares_clocks_that_agree_within_a_second_and_only_once) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    const auto begin = std::chrono::steady_clock::now();
    // The check must not use up the TTL of the lock.
    auto lease = locks.acquire("k", {.ttl = 500ms});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
    EXPECT_TRUE(lease && lease->release().ok);
    const auto questions = google_.questions_for_the_time();
    EXPECT_TRUE(locks.acquire("other")->release().ok);
    EXPECT_EQ(google_.questions_for_the_time(), questions);
}

TEST_F(clock_check, warns_once_of_clocks_that_differ) {
    google_.show_date(ahead_by(-2500ms));
    const auto locks = open(firestore::on_clock_skew::warn);
    for (int i = 0; i < 5; ++i)
        EXPECT_TRUE(locks.acquire("k" + std::to_string(i)));
    const auto messages = warnings_.first(1);
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_NE(messages[0].find("NTP"), std::string::npos) << messages[0];
}

TEST_F(clock_check, a_warning_handler_may_wait_until_the_call_has_returned) {
    google_.show_date(ahead_by(-2500ms));
    std::promise<void> returned;
    const auto has_returned = std::make_shared<std::promise<bool>>();
    const firestore::backend locks(
        options(firestore::on_clock_skew::warn),
        {.operation_timeout = 20s,
         .on_release_error = {},
         .dispose_timeout = {},
         .on_warning = [has_returned, after = returned.get_future().share()](std::string_view) {
             has_returned->set_value(after.wait_for(5s) == std::future_status::ready);
         }});
    for (int i = 0; i < 5; ++i)
        (void)locks.is_locked("k");
    returned.set_value();
    EXPECT_TRUE(has_returned->get_future().get());
}

/// The test controls both clocks, so that the result does not depend on the speed of the machine.
class clock_thresholds : public clock_check {
  protected:
    /// A backend that has received answers from before and after the server's clock reached a new
    /// second.
    [[nodiscard]] firestore::backend open_and_listen(milliseconds difference) {
        google_.show_date([this, difference] { return as_date(clock_.now() + difference); });
        auto store = options(firestore::on_clock_skew::refuse);
        store.clock = clock_.as_wall_clock();
        firestore::backend locks(store, {.operation_timeout = 20s,
                                         .on_release_error = {},
                                         .dispose_timeout = {},
                                         .on_warning = warnings_.handler()});
        for (int i = 0; i <= 50; ++i) {
            (void)locks.is_locked("k");
            clock_.advance(20ms);
        }
        return locks;
    }
    manual_clock clock_;
};

TEST_F(clock_thresholds, a_difference_of_150_ms_is_ignored) {
    for (const milliseconds difference : {150ms, -150ms}) {
        const auto locks = open_and_listen(difference);
        EXPECT_TRUE(locks.acquire("k"));
        EXPECT_TRUE(warnings_.all().empty());
    }
}

TEST_F(clock_thresholds, a_difference_of_300_ms_is_warned_of_and_not_refused) {
    std::size_t warned = 0;
    for (const milliseconds difference : {300ms, -300ms}) {
        const auto locks = open_and_listen(difference);
        EXPECT_TRUE(locks.acquire("k"));
        ++warned;
        EXPECT_EQ(warnings_.first(warned).size(), warned);
    }
}

TEST_F(clock_thresholds, a_difference_of_600_ms_is_refused_and_stays_refused) {
    for (const milliseconds difference : {600ms, -600ms}) {
        const auto locks = open_and_listen(difference);
        // The only answers of the server are those to the refused calls' own reads.
        for (int i = 0; i < 60; ++i) {
            expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
            clock_.advance(15s + 270ms);
        }
    }
}

/// A key that this client has released is granted by a commit without a read: the answer to the
/// commit is the first that shows the wrong clock.
TEST_F(clock_check, a_grant_whose_answer_proves_the_clock_wrong_is_undone) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    ASSERT_TRUE(locks.acquire("k")->release().ok);
    google_.show_date(ahead_by(60s));
    const auto commits = google_.commits();
    expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
    EXPECT_TRUE(eventually([&] { return google_.commits() == commits + 2; })) << "no undo";
}

TEST_F(clock_check, an_extension_whose_answer_proves_the_clock_wrong_ends_the_lease) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    auto lease = locks.acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    google_.show_date(ahead_by(60s));
    EXPECT_FALSE(lease->extend({.ttl = 30s}).ok);
    EXPECT_FALSE(lease->valid());
}

/// By the client's clock, the live lock of another client has expired long ago.
TEST_F(clock_check, a_client_whose_clock_is_wrong_removes_no_lock) {
    std::atomic<int> commits{0};
    const http_server server([&](const http_received& request) {
        const auto now = std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
        http_reply reply;
        reply.headers.emplace_back("Date", as_date(now));
        if (request.target.ends_with(":commit")) ++commits;
        if (!request.target.ends_with(":batchGet")) return reply;
        const auto asked = boost::json::parse(request.body).at("documents").as_array();
        const auto text = [](const std::string& value) {
            return boost::json::object{{"stringValue", value}};
        };
        const auto time = [&](milliseconds offset) {
            return boost::json::object{
                {"integerValue", std::to_string((now + offset).time_since_epoch().count())}};
        };
        const boost::json::object fields{{"lockId", text("AAAAAAAAAAAAAAAAAAAAAA")},
                                         {"expiresAtMs", time(30s)},
                                         {"acquiredAtMs", time(0s)},
                                         {"key", text("k")},
                                         {"fence", text("000000000000001")}};
        const boost::json::object document{
            {"name", asked.at(0)}, {"fields", fields}, {"updateTime", "v"}};
        const boost::json::array answers{boost::json::object{{"found", document}}};
        reply.body = boost::json::serialize(answers);
        return reply;
    });
    auto settings = options(firestore::on_clock_skew::warn);
    settings.emulator_host = "127.0.0.1:" + std::to_string(server.port());
    settings.cleanup_in_is_locked = true;
    settings.clock = [] {
        return std::chrono::floor<milliseconds>(std::chrono::system_clock::now()) + 60s;
    };
    const firestore::backend locks(settings, {.on_warning = warnings_.handler()});
    (void)locks.is_locked("k");
    (void)locks.is_locked("k");
    EXPECT_FALSE(eventually([&] { return commits > 0; }, 500ms));
}

/// Makes the server send a wrong time once, and the right time from then on.
std::function<std::string()> wrong_once() {
    return [first = true]() mutable { return ahead_by(std::exchange(first, false) ? 60s : 0s)(); };
}

TEST_F(clock_check, one_wrong_answer_does_not_keep_a_lease_from_being_extended) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    auto lease = locks.acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    google_.show_date(wrong_once());
    (void)locks.is_locked("other");
    EXPECT_TRUE(lease->extend({.ttl = 30s}).ok);
    EXPECT_TRUE(lease->valid());
    EXPECT_TRUE(warnings_.all().empty());
}

TEST_F(clock_check, one_wrong_answer_to_a_commit_undoes_nothing) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    ASSERT_TRUE(locks.acquire("k")->release().ok);
    google_.show_date(wrong_once());
    auto lease = locks.acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    google_.show_date(wrong_once());
    EXPECT_TRUE(lease->extend({.ttl = 30s}).ok);
    EXPECT_TRUE(lease->valid());
}

TEST_F(clock_check, extensions_continue_after_the_clock_was_corrected) {
    google_.show_date(ahead_by(0ms));
    const auto locks = open(firestore::on_clock_skew::refuse);
    auto lease = locks.acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    google_.show_date(ahead_by(60s));
    for (int i = 0; i < 3; ++i)
        (void)locks.is_locked("other");
    expect_error(error_code::service_unavailable, [&] { (void)lease->extend({.ttl = 30s}); });
    google_.show_date(ahead_by(0ms));
    EXPECT_TRUE(lease->extend({.ttl = 30s}).ok);
    EXPECT_TRUE(lease->valid());
}

TEST_F(clock_check, locks_and_warns_once_if_the_server_sends_no_date) {
    auto store = options(firestore::on_clock_skew::refuse);
    store.emulator_host.clear();
    store.endpoint = google_.endpoint();
    const local_token_server tokens;
    const service_account_file account(tokens.url());
    store.credentials_file = account.path();
    const firestore::backend locks(store, {.operation_timeout = 20s,
                                           .on_release_error = {},
                                           .dispose_timeout = {},
                                           .on_warning = warnings_.handler()});
    for (int i = 0; i < 3; ++i) {
        auto lease = locks.acquire("k" + std::to_string(i), {.ttl = 30s});
        ASSERT_TRUE(lease);
        EXPECT_TRUE(lease->extend({.ttl = 30s}).ok);
    }
    const auto messages = warnings_.first(1);
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_NE(messages[0].find("do not tell the time"), std::string::npos) << messages[0];
}

TEST_F(clock_check, does_not_warn_of_an_emulator_without_a_date) {
    EXPECT_TRUE(open(firestore::on_clock_skew::refuse).acquire("k"));
    EXPECT_TRUE(warnings_.all().empty());
}

TEST_F(clock_check, refuses_to_lock_with_a_wrong_clock_if_configured_but_always_releases) {
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
    EXPECT_FALSE(warnings_.first(1).empty());
}

}  // namespace
}  // namespace syncguard::test
