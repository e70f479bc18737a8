/// Documents and errors as the REST interface shows them.
#include "../../src/firestore/documents.hpp"

#include "../../src/firestore/decisions.hpp"
#include "../../src/firestore/server_error.hpp"
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

TEST(documents, of_a_grant_demand_that_both_are_as_they_were_read) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    const auto record = lock_that_ends(10s).record;
    const auto fresh = json::parse(encode_grant(names, {}, record));
    EXPECT_EQ(fresh.at("writes").at(0).at("currentDocument"), json::parse(R"({"exists":false})"));
    EXPECT_EQ(fresh.at("writes").at(1).at("currentDocument"), json::parse(R"({"exists":false})"));
    const stored_pair read{.lock = lock_that_ends(-10s),
                           .counter = stored_counter{.value = 1, .version = "w"}};
    const auto again = json::parse(encode_grant(names, read, record));
    EXPECT_EQ(again.at("writes").at(0).at("currentDocument"), json::parse(R"({"updateTime":"v"})"));
    EXPECT_EQ(again.at("writes").at(1).at("currentDocument"), json::parse(R"({"updateTime":"w"})"));
}

TEST(documents, that_are_not_an_answer_are_refused) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    for (const char* const body : {"", "{}", "[", "null", R"([{"found":{"name":"other"}}])",
                                   R"([{"found":7}])", R"([{"found":{}}])"}) {
        expect_error(error_code::internal, [&] { (void)decode_read(body, names); });
    }
    expect_error(error_code::internal, [] { (void)decode_search("{}"); });
    expect_error(error_code::internal, [] { (void)decode_commit("{}"); });
    expect_error(error_code::internal, [] { (void)decode_commit("[]"); });
    expect_error(error_code::internal, [] { (void)decode_commit(R"({"writeResults":[]})"); });
}

TEST(documents, with_a_number_that_is_no_time_are_refused) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    for (const char* const value :
         {R"({"stringValue":"12"})", R"({"integerValue":"x"})", R"({"doubleValue":1e300})",
          R"({"doubleValue":"NaN"})", R"({"integerValue":"99999999999999999999"})", "7"}) {
        const std::string body =
            std::string(R"([{"found":{"name":"L","updateTime":"v","fields":{)") +
            R"("lockId":{"stringValue":"AAAAAAAAAAAAAAAAAAAAAA"},"key":{"stringValue":"k"},)"
            R"("fence":{"stringValue":"000000000000001"},"acquiredAtMs":{"integerValue":"1"},)"
            R"("expiresAtMs":)" +
            value + "}}}]";
        expect_error(error_code::invalid_argument, [&] { (void)decode_read(body, names); });
    }
}

TEST(errors, are_read_alone_and_in_lists) {
    EXPECT_EQ(decode_error_status(R"({"error":{"status":"ABORTED"}})"), "ABORTED");
    EXPECT_EQ(decode_error_status(R"([{"error":{"status":"ABORTED"}}])"), "ABORTED");
    for (const char* const none : {"", "x", "[]", "{}", R"({"error":1})", R"({"error":{}})"})
        EXPECT_EQ(decode_error_status(none), "");
}

TEST(errors, mean_what_the_formats_say) {
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
    EXPECT_EQ(code(418, "TEAPOT"), error_code::internal);
}

}  // namespace
}  // namespace syncguard::firestore
