/// How operations are combined into one call of the script.
#include "redis/script_call.hpp"

#include "redis/lock_protocol.hpp"
#include "redis/resp/reader.hpp"
#include "redis/scripts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using words = std::vector<std::string>;

const lock_id id = lock_id::parse("AAAAAAAAAAAAAAAAAAAAAA");
const std::string index_key = "app:id:AAAAAAAAAAAAAAAAAAAAAA";
const std::string sha1(redis::lock_script().sha1);

/// The words of a call that performs these operations, sorted as the client sorts them.
words call_of(const std::vector<request>& operations, bool script_is_known = true) {
    const redis::key_space keys("app");
    std::vector<redis::script_args> inputs;
    for (const auto& each : operations)
        inputs.push_back(redis::encode(each, keys, true));
    std::stable_sort(inputs.begin(), inputs.end(), redis::batch_order);
    std::vector<const redis::script_args*> in_order;
    for (const auto& each : inputs)
        in_order.push_back(&each);
    std::string bytes;
    redis::append_evalsha(bytes, in_order, script_is_known);

    redis::resp::reader reader;
    std::memcpy(reader.prepare(bytes.size()).data(), bytes.data(), bytes.size());
    reader.commit(bytes.size());
    const auto command = reader.next();
    if (!command || reader.next()) throw std::logic_error("not one whole command: " + bytes);
    words found;
    for (const auto& each : *command)
        found.emplace_back(each.text());
    return found;
}

request acquisition(std::string_view key, milliseconds ttl) {
    return acquire_request{.key = key, .id = id, .ttl = ttl};
}

TEST(calls_of_the_lock_script, one_operation_is_a_group_of_its_own) {
    EXPECT_EQ(call_of({acquisition("k", 5s)}),
              (words{"EVALSHA", sha1, "3", "app:k", index_key, "app:fence:app:k", "acquire_plain",
                     "5000", "1"}));
    EXPECT_EQ(call_of({release_request{.id = id, .key = "k"}}),
              (words{"EVALSHA", sha1, "2", "app:k", index_key, "release_known", "", "1"}));
    EXPECT_EQ(call_of({release_request{id}}),
              (words{"EVALSHA", sha1, "1", index_key, "release", "", "1"}));
    EXPECT_EQ(call_of({extend_request{id, 7s}}),
              (words{"EVALSHA", sha1, "1", index_key, "extend", "7000", "1"}));
    EXPECT_EQ(call_of({is_locked_request{"k"}}),
              (words{"EVALSHA", sha1, "1", "app:k", "is_locked", "app:id:", "1"}));
    EXPECT_EQ(call_of({key_lookup_request{"k"}}),
              (words{"EVALSHA", sha1, "1", "app:k", "lookup_key", "", "1"}));
    EXPECT_EQ(call_of({id_lookup_request{id}}),
              (words{"EVALSHA", sha1, "1", index_key, "lookup_id", "", "1"}));
}

TEST(calls_of_the_lock_script, a_key_is_passed_if_its_name_or_json_differs) {
    EXPECT_EQ(call_of({acquisition("a\"b", 5s)}),
              (words{"EVALSHA", sha1, "3", "app:a\"b", index_key, "app:fence:app:a\"b", "acquire",
                     "5000", "1", R"(a\"b)"}));
    const std::string umlaut = "\u00fc";
    EXPECT_EQ(call_of({acquisition(umlaut, 5s)}).back(), umlaut);
    const std::string longest(512, 'k');
    EXPECT_EQ(call_of({acquisition(longest, 5s)}).at(6), "acquire_plain");
}

TEST(calls_of_the_lock_script, acquisitions_come_last_by_kind_and_others_keep_their_order) {
    const auto call = call_of({acquisition("a", 5s), release_request{.id = id, .key = "b"},
                               acquisition("c", 7s), acquisition("d", 5s), is_locked_request{"e"},
                               release_request{.id = id, .key = "f"}});
    const words expected{"EVALSHA", sha1, "14",
                         // the keys
                         "app:b", index_key, "app:e", "app:f", index_key,  //
                         "app:a", "app:d", index_key, index_key,           //
                         "app:fence:app:a", "app:fence:app:d",             //
                         "app:c", index_key, "app:fence:app:c",
                         // the groups
                         "release_known", "", "1", "is_locked", "app:id:", "1", "release_known", "",
                         "1", "acquire_plain", "5000", "2", "acquire_plain", "7000", "1"};
    EXPECT_EQ(call, expected);
}

TEST(calls_of_the_lock_script, the_script_is_passed_if_the_server_may_not_know_it) {
    const auto call = call_of({release_request{id}}, false);
    EXPECT_EQ(call.at(0), "EVAL");
    EXPECT_EQ(call.at(1), redis::lock_script().text);
}

}  // namespace
}  // namespace syncguard::test
