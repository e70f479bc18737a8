/// Parsing of the script's replies: valid ones, and ones that the script never sends.
#include "redis/lock_protocol.hpp"

#include "redis/resp/reader.hpp"
#include "support/expect_error.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

namespace resp = redis::resp;

const lock_id id = lock_id::parse("AAAAAAAAAAAAAAAAAAAAAA");

std::string bulk(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

constexpr unix_time usual_time(milliseconds(1'700'000'000'000));

outcome decoded(const request& req, const std::string& bytes, unix_time server_time = usual_time) {
    resp::reader reader;
    const auto room = reader.prepare(bytes.size());
    std::memcpy(room.data(), bytes.data(), bytes.size());
    reader.commit(bytes.size());
    const auto reply = reader.next();
    if (!reply) throw std::logic_error("not a whole reply: " + bytes);
    return redis::decode(req, {*reply, server_time}, "Redis at somewhere:6379");
}

const std::string whole_lock =
    R"({"lockId":"AAAAAAAAAAAAAAAAAAAAAA","expiresAtMs":1700000030000,)"
    R"("acquiredAtMs":1700000000000,"key":"k","fence":"000000000000007"})";
const std::string granted = ":7\r\n";

const request acquire = acquire_request{"k", id, milliseconds(30'000)};
const request release = release_request{id};
const request extend = extend_request{id, milliseconds(30'000)};
const request is_locked = is_locked_request{"k"};
const request lookup_key = key_lookup_request{"k"};
const request lookup_id = id_lookup_request{id};

TEST(replies_of_the_lock_script, to_an_acquisition) {
    const auto yes = decoded(acquire, granted);
    EXPECT_TRUE(yes.ok);
    EXPECT_EQ(yes.fence.str(), "000000000000007");
    EXPECT_EQ(yes.expires_at, unix_time(milliseconds(1'700'000'030'000)));
    const auto no = decoded(acquire, ":0\r\n");
    EXPECT_FALSE(no.ok);
    EXPECT_EQ(no.reason, failure_reason::locked);
    const auto for_a_while = decoded(acquire, ":-1500\r\n");
    EXPECT_EQ(for_a_while.reason, failure_reason::locked);
    EXPECT_EQ(for_a_while.free_within, milliseconds(1500));
}

TEST(replies_of_the_lock_script, to_a_release_or_an_extension) {
    EXPECT_TRUE(decoded(release, ":1\r\n").ok);
    EXPECT_TRUE(decoded(extend, ":1\r\n").ok);
    EXPECT_EQ(decoded(extend, ":1\r\n").expires_at, unix_time(milliseconds(1'700'000'030'000)));
    for (const auto& req : {release, extend}) {
        EXPECT_EQ(decoded(req, ":0\r\n").reason, failure_reason::not_found);
        EXPECT_EQ(decoded(req, ":-1\r\n").reason, failure_reason::not_found);
        EXPECT_EQ(decoded(req, ":-2\r\n").reason, failure_reason::expired);
    }
}

TEST(replies_of_the_lock_script, to_a_query) {
    EXPECT_TRUE(decoded(is_locked, ":1\r\n").ok);
    EXPECT_FALSE(decoded(is_locked, ":0\r\n").ok);
    for (const auto& req : {lookup_key, lookup_id}) {
        EXPECT_FALSE(decoded(req, "_\r\n").record);
        EXPECT_FALSE(decoded(req, "$-1\r\n").record);
        const auto found = decoded(req, bulk(whole_lock));
        ASSERT_TRUE(found.record);
        EXPECT_EQ(found.record->key, "k");
        EXPECT_EQ(found.record->id, id);
        EXPECT_EQ(found.record->fence.str(), "000000000000007");
    }
}

TEST(replies_of_the_lock_script, numbers_that_would_overflow_are_refused) {
    for (const auto* const reply : {":-9223372036854775808\r\n", ":-9223372036854775807\r\n"})
        expect_error(error_code::internal, [&] { (void)decoded(acquire, reply); });
    expect_error(error_code::internal,
                 [] { (void)decoded(acquire, ":-1500\r\n", unix_time::max()); });
    for (const request& req : {acquire, extend})
        expect_error(error_code::internal, [&] { (void)decoded(req, ":1\r\n", unix_time::max()); });
}

TEST(replies_of_the_lock_script, any_other_is_refused) {
    const std::vector<std::string> replies{
        "_\r\n",
        "$-1\r\n",
        "*-1\r\n",
        ":-3\r\n",
        ":-2\r\n",
        ":-1\r\n",
        ":0\r\n",
        ":1\r\n",
        ":2\r\n",
        ":9223372036854775807\r\n",
        "+OK\r\n",
        "+1\r\n",
        "$1\r\n1\r\n",
        "$0\r\n\r\n",
        "#t\r\n",
        "#f\r\n",
        ",1\r\n",
        "(1\r\n",
        "=5\r\ntxt:1\r\n",
        "*0\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*1\r\n:1\r\n",
        granted,
        ":" + std::to_string(fence::max_counter + 1) + "\r\n",
        "*2\r\n:1700000000000\r\n:1\r\n",
        "*2\r\n:1700000000000\r\n" + bulk(whole_lock),
        "~1\r\n:1\r\n",
        "%1\r\n:1\r\n:1\r\n",
        bulk(whole_lock),
        "+" + whole_lock + "\r\n",
        bulk("null"),
        bulk("[]"),
        bulk(whole_lock.substr(0, whole_lock.size() - 1)),
    };
    const std::vector<std::pair<request, std::vector<std::string>>> given{
        {acquire, {granted, ":0\r\n", ":-1\r\n", ":-2\r\n", ":-3\r\n", ":1\r\n", ":2\r\n"}},
        {release, {":1\r\n", ":0\r\n", ":-1\r\n", ":-2\r\n"}},
        {extend, {":1\r\n", ":0\r\n", ":-1\r\n", ":-2\r\n"}},
        {is_locked, {":1\r\n", ":0\r\n"}},
        {lookup_key, {bulk(whole_lock), "_\r\n", "$-1\r\n", "*-1\r\n"}},
        {lookup_id, {bulk(whole_lock), "_\r\n", "$-1\r\n", "*-1\r\n"}},
    };
    for (const auto& [req, right] : given) {
        for (const auto& reply : replies) {
            SCOPED_TRACE(std::to_string(req.index()) + " " + reply);
            if (std::find(right.begin(), right.end(), reply) != right.end()) {
                EXPECT_NO_THROW((void)decoded(req, reply));
                continue;
            }
            try {
                (void)decoded(req, reply);
                ADD_FAILURE() << "it was taken for an answer";
            } catch (const lock_error& failure) {
                const std::string message = failure.what();
                EXPECT_NE(message.find("somewhere:6379"), std::string::npos) << message;
                EXPECT_EQ(message.find("lockId"), std::string::npos) << message;
            }
        }
    }
}

TEST(replies_of_the_lock_script, an_error_is_reported_by_its_meaning) {
    for (const auto& req : {acquire, release, extend, is_locked, lookup_key, lookup_id}) {
        expect_error(error_code::invalid_argument,
                     [&] { (void)decoded(req, "-WRONGTYPE Operation against a key\r\n"); });
        expect_error(error_code::internal, [&] { (void)decoded(req, "-FENCEEND\r\n"); });
        expect_error(error_code::service_unavailable, [&] { (void)decoded(req, "-OOM\r\n"); });
        expect_error(error_code::internal, [&] { (void)decoded(req, "-ERR whatever\r\n"); });
        expect_error(error_code::internal, [&] { (void)decoded(req, "-\r\n"); });
        expect_error(error_code::auth_failed, [&] { (void)decoded(req, "!6\r\nNOPERM\r\n"); });
    }
}

}  // namespace
}  // namespace syncguard::test
