/// Documents and errors in the form of the REST interface.
#include "firestore/documents.hpp"

#include "firestore/lock_rules.hpp"
#include "firestore/server_error.hpp"
#include "support/expect_error.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace syncguard::firestore {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using test::expect_error;

constexpr unix_time now{1'700'000'000'000ms};

stored_lock lock_that_ends(milliseconds later) {
    return {.name = "n",
            .record = {.key = "k",
                       .id = lock_id::generate(),
                       .expires_at = now + later,
                       .acquired_at = now,
                       .fence = fence::from_counter(7)},
            .version = "v"};
}

TEST(documents, of_a_grant_require_that_both_are_unchanged_since_the_read) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    const auto record = lock_that_ends(10s).record;
    const auto fresh = json::parse(encode_grant(names, {}, record).body);
    EXPECT_EQ(fresh.at("writes").at(0).at("currentDocument"), json::parse(R"({"exists":false})"));
    EXPECT_EQ(fresh.at("writes").at(1).at("currentDocument"), json::parse(R"({"exists":false})"));
    const stored_pair read{.lock = lock_that_ends(-10s),
                           .counter = stored_counter{.value = 1, .version = "w"}};
    const auto again = json::parse(encode_grant(names, read, record).body);
    EXPECT_EQ(again.at("writes").at(0).at("currentDocument"), json::parse(R"({"updateTime":"v"})"));
    EXPECT_EQ(again.at("writes").at(1).at("currentDocument"), json::parse(R"({"updateTime":"w"})"));
}

constexpr const char* missing_both = R"([{"missing":"L"},{"missing":"C"}])";

TEST(documents, that_are_missing_are_reported_as_missing) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    const auto read = decode_read(missing_both, names, true);
    EXPECT_FALSE(read.lock);
    EXPECT_FALSE(read.counter);
    EXPECT_FALSE(decode_read(R"([{"missing":"L","readTime":"t"}])", names, false).lock);
    EXPECT_TRUE(decode_search(R"([{"readTime":"t"}])").empty());
}

TEST(documents, that_are_malformed_are_refused) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    for (const char* const body :
         {"", "{}", "[", "null", R"([{"found":{"name":"other"}}])", R"([{"found":7}])",
          R"([{"found":{}}])", R"([{"missing":"L"},{"missing":"other"}])", R"([{"missing":7}])"}) {
        expect_error(error_code::internal, [&] { (void)decode_read(body, names, true); });
    }
    expect_error(error_code::internal, [] { (void)decode_search("{}"); });
    expect_error(error_code::internal, [] { (void)decode_search("[7]"); });
    expect_error(error_code::internal, [] { (void)decode_commit("{}", 1); });
    expect_error(error_code::internal, [] { (void)decode_commit("[]", 1); });
    for (const std::size_t writes : {0U, 1U, 3U}) {
        expect_error(error_code::internal,
                     [&] { (void)decode_commit(R"({"writeResults":[{},{}]})", writes); });
    }
}

TEST(documents, absent_from_an_answer_are_not_taken_for_missing) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    for (const char* const body : {"[]", "[{}]", R"([{"readTime":"t"}])", R"([{"missing":"C"}])"}) {
        expect_error(error_code::internal, [&] { (void)decode_read(body, names, true); });
        expect_error(error_code::internal, [&] { (void)decode_read(body, names, false); });
    }
    expect_error(error_code::internal,
                 [&] { (void)decode_read(R"([{"missing":"L"}])", names, true); });
    for (const char* const body : {"[]", "[{}]"})
        expect_error(error_code::internal, [&] { (void)decode_search(body); });
}

TEST(documents, from_an_interrupted_read_are_an_error_of_its_kind) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    const std::string broken = R"({"error":{"code":503,"status":"UNAVAILABLE"}}])";
    expect_error(error_code::service_unavailable, [&] {
        (void)decode_read(R"([{"missing":"L"},{"missing":"C"},)" + broken, names, true);
    });
    expect_error(error_code::service_unavailable,
                 [&] { (void)decode_search(R"([{"readTime":"t"},)" + broken); });
    expect_error(error_code::internal,
                 [&] { (void)decode_search(R"([{"readTime":"t"},{"error":7}])"); });
}

/// The answer to a read of the lock alone.
std::string lock_with_expiry(const std::string& value) {
    return R"([{"found":{"name":"L","updateTime":"v","fields":{)"
           R"("lockId":{"stringValue":"AAAAAAAAAAAAAAAAAAAAAA"},"key":{"stringValue":"k"},)"
           R"("fence":{"stringValue":"000000000000001"},"acquiredAtMs":{"integerValue":"1"},)"
           R"("expiresAtMs":)" +
           value + "}}}]";
}

TEST(documents, with_a_number_that_is_no_time_are_refused) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    for (const char* const value :
         {R"({"stringValue":"12"})", R"({"integerValue":"x"})", R"({"doubleValue":1e300})",
          R"({"doubleValue":"NaN"})", R"({"integerValue":"99999999999999999999"})", "7",
          R"({"integerValue":"9223372036854775807"})", R"({"integerValue":9223372036854775807})",
          R"({"integerValue":"-9223372036854775808"})", R"({"integerValue":"9007199254740993"})",
          R"({"doubleValue":9007199254740994})"}) {
        expect_error(error_code::invalid_argument,
                     [&] { (void)decode_read(lock_with_expiry(value), names, false); });
    }
}

TEST(documents, with_the_latest_and_the_earliest_time_do_not_overflow) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    for (const char* const value :
         {R"({"integerValue":"9007199254740992"})", R"({"doubleValue":9007199254740992})"}) {
        const auto lock = decode_read(lock_with_expiry(value), names, false).lock->record;
        EXPECT_GT(time_until_free(lock, now), 0ms);
        EXPECT_FALSE(may_be_cleaned_up(lock, now));
    }
    const auto lock =
        decode_read(lock_with_expiry(R"({"integerValue":"-9007199254740992"})"), names, false)
            .lock->record;
    EXPECT_EQ(time_until_free(lock, now), 0ms);
    EXPECT_TRUE(may_be_cleaned_up(lock, now));
}

TEST(errors, are_read_alone_and_in_lists) {
    EXPECT_EQ(decode_error_status(R"({"error":{"status":"ABORTED"}})"), "ABORTED");
    EXPECT_EQ(decode_error_status(R"([{"error":{"status":"ABORTED"}}])"), "ABORTED");
    for (const char* const none : {"", "x", "[]", "{}", R"({"error":1})", R"({"error":{}})"})
        EXPECT_EQ(decode_error_status(none), "");
}

TEST(errors, are_refusals_only_if_name_and_status_are_those_of_a_refusal) {
    EXPECT_TRUE(is_refusal(409, "ABORTED"));
    EXPECT_TRUE(is_refusal(409, "ALREADY_EXISTS"));
    EXPECT_TRUE(is_refusal(400, "FAILED_PRECONDITION"));
    EXPECT_TRUE(is_refusal(404, "NOT_FOUND"));
    EXPECT_TRUE(is_refusal(400, "INVALID_ARGUMENT"));
    EXPECT_TRUE(is_refusal(403, "PERMISSION_DENIED"));
    EXPECT_TRUE(is_refusal(401, "UNAUTHENTICATED"));
    EXPECT_TRUE(is_refusal(429, "RESOURCE_EXHAUSTED"));
    EXPECT_FALSE(is_refusal(499, "CANCELLED"));
    EXPECT_FALSE(is_refusal(500, "UNKNOWN"));
    EXPECT_FALSE(is_refusal(503, "ABORTED"));
    EXPECT_FALSE(is_refusal(400, "TEAPOT"));
    for (const unsigned status : {204U, 302U, 400U, 403U, 404U, 408U, 409U, 429U, 502U})
        EXPECT_FALSE(is_refusal(status, "")) << status;
}

TEST(errors, have_the_codes_of_the_specification) {
    const auto code = [](unsigned http, const char* status) {
        return to_lock_error(http, status, "here").code();
    };
    EXPECT_EQ(code(503, "UNAVAILABLE"), error_code::service_unavailable);
    EXPECT_EQ(code(500, "INTERNAL"), error_code::service_unavailable);
    EXPECT_EQ(code(409, "ABORTED"), error_code::service_unavailable);
    EXPECT_EQ(code(504, "DEADLINE_EXCEEDED"), error_code::network_timeout);
    EXPECT_EQ(code(403, "PERMISSION_DENIED"), error_code::auth_failed);
    EXPECT_EQ(code(401, "UNAUTHENTICATED"), error_code::auth_failed);
    EXPECT_EQ(code(400, "INVALID_ARGUMENT"), error_code::invalid_argument);
    EXPECT_EQ(code(400, "FAILED_PRECONDITION"), error_code::invalid_argument);
    EXPECT_EQ(code(429, "RESOURCE_EXHAUSTED"), error_code::rate_limited);
    EXPECT_EQ(code(429, ""), error_code::rate_limited);
    EXPECT_EQ(code(502, ""), error_code::service_unavailable);
    EXPECT_EQ(code(408, ""), error_code::service_unavailable);
    EXPECT_EQ(code(499, "CANCELLED"), error_code::service_unavailable);
    EXPECT_EQ(code(418, "TEAPOT"), error_code::internal);
}

}  // namespace
}  // namespace syncguard::firestore
