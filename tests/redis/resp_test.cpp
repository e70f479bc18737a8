#include "redis/resp/reader.hpp"
#include "redis/resp/writer.hpp"
#include "support/resp_notation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::string_literals;
using redis::resp::kind;
using redis::resp::limits;
using redis::resp::malformed;
using redis::resp::reader;
using redis::resp::value;

static_assert(std::forward_iterator<value::iterator>);

void feed(reader& from, std::string_view bytes) {
    const auto room = from.prepare(bytes.size());
    ASSERT_GE(room.size(), bytes.size());
    if (bytes.empty()) return;
    std::memcpy(room.data(), bytes.data(), bytes.size());
    from.commit(bytes.size());
}

/// The messages that `from` has so far; the last is "malformed" if it refuses the bytes.
std::vector<std::string> drain(reader& from) {
    std::vector<std::string> messages;
    try {
        while (const auto message = from.next())
            messages.push_back(notation(*message));
    } catch (const malformed&) {
        messages.emplace_back("malformed");
    }
    return messages;
}

/// The messages in `bytes`, which arrive in pieces of the given sizes; the last size is repeated.
std::vector<std::string> messages_in_pieces(std::string_view bytes,
                                            const std::vector<std::size_t>& pieces,
                                            const limits& caps = {}) {
    reader from(caps);
    std::vector<std::string> messages;
    for (std::size_t i = 0; !bytes.empty(); ++i) {
        const auto size = std::min(pieces[std::min(i, pieces.size() - 1)], bytes.size());
        feed(from, bytes.substr(0, size));
        bytes.remove_prefix(size);
        std::ranges::move(drain(from), std::back_inserter(messages));
        if (!messages.empty() && messages.back() == "malformed") break;
    }
    return messages;
}

std::vector<std::string> messages_in(std::string_view bytes, const limits& caps = {}) {
    return messages_in_pieces(bytes, {std::max<std::size_t>(bytes.size(), 1)}, caps);
}

/// The only message in `bytes`.
std::string message_in(std::string_view bytes, const limits& caps = {}) {
    const auto messages = messages_in(bytes, caps);
    return messages.size() == 1 ? messages.front() : "not one message";
}

struct example {
    std::string bytes;
    std::vector<std::string> messages;
};

const std::vector<example>& examples() {
    static const std::vector<example> all = {
        {"+OK\r\n", {"simple2\"OK\""}},
        {"+\r\n", {"simple0\"\""}},
        {"-ERR no such thing\r\n", {"error17\"ERR no such thing\""}},
        {"!10\r\nERR a\r\nb\0c\r\n"s, {"error10\"ERR a\r\nb\0c\""s}},
        {":0\r\n", {"0"}},
        {":-17\r\n", {"-17"}},
        {":+17\r\n", {"17"}},
        {":9223372036854775807\r\n", {"9223372036854775807"}},
        {":-9223372036854775808\r\n", {"-9223372036854775808"}},
        {"$0\r\n\r\n", {"bulk0\"\""}},
        {"$5\r\nhello\r\n", {"bulk5\"hello\""}},
        {"$6\r\na\r\n\0$b\r\n"s, {"bulk6\"a\r\n\0$b\""s}},
        {"$-1\r\n", {"null"}},
        {"*-1\r\n", {"null"}},
        {"_\r\n", {"null"}},
        {"#t\r\n", {"true"}},
        {"#f\r\n", {"false"}},
        {",3.25\r\n", {"double4\"3.25\""}},
        {",10\r\n", {"double2\"10\""}},
        {",-1.5e-7\r\n", {"double7\"-1.5e-7\""}},
        {",+1.E+10\r\n", {"double7\"+1.E+10\""}},
        {",inf\r\n", {"double3\"inf\""}},
        {",-inf\r\n", {"double4\"-inf\""}},
        {",nan\r\n", {"double3\"nan\""}},
        {"(3492890328409238509324850943850943825024385\r\n",
         {"big43\"3492890328409238509324850943850943825024385\""}},
        {"(-1\r\n", {"big2\"-1\""}},
        {"=8\r\ntxt:some\r\n", {"verbatim4\"some\""}},
        {"=4\r\nmkd:\r\n", {"verbatim0\"\""}},
        {"*0\r\n", {"array0[]"}},
        {"*3\r\n:1\r\n$1\r\nb\r\n_\r\n", {"array3[1 bulk1\"b\" null ]"}},
        {"*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n+x\r\n",
         {"array2[array2[1 array0[] ] array1[simple1\"x\" ] ]"}},
        {"~2\r\n+a\r\n+b\r\n", {"set2[simple1\"a\" simple1\"b\" ]"}},
        {"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", {"map4[simple1\"a\" 1 simple1\"b\" array1[2 ] ]"}},
        {"%0\r\n", {"map0[]"}},
        {">2\r\n+invalidate\r\n_\r\n", {"push2[simple10\"invalidate\" null ]"}},
        {":1\r\n>1\r\n+note\r\n:2\r\n", {"1", "push1[simple4\"note\" ]", "2"}},
        {"+a\r\n-b\r\n$1\r\nc\r\n", {"simple1\"a\"", "error1\"b\"", "bulk1\"c\""}},
        {"|1\r\n+ttl\r\n:3600\r\n*1\r\n:7\r\n", {"array1[7 ]"}},
        {"*2\r\n|1\r\n+ttl\r\n*1\r\n:1\r\n:7\r\n|0\r\n:8\r\n:9\r\n", {"array2[7 8 ]", "9"}},
        {"|1\r\n|1\r\n:1\r\n:2\r\n:3\r\n:4\r\n|0\r\n>0\r\n", {"push0[]"}},
    };
    return all;
}

TEST(resp_reader, every_type_is_parsed) {
    for (const auto& [bytes, messages] : examples())
        EXPECT_EQ(messages_in(bytes), messages) << bytes;
}

TEST(resp_reader, bytes_may_be_split_anywhere) {
    for (const auto& [bytes, messages] : examples()) {
        for (std::size_t split = 1; split < bytes.size(); ++split)
            EXPECT_EQ(messages_in_pieces(bytes, {split, bytes.size()}), messages) << bytes << split;
        EXPECT_EQ(messages_in_pieces(bytes, {1}), messages) << bytes;
    }
}

TEST(resp_reader, a_message_is_returned_as_soon_as_its_last_byte_has_arrived_and_not_before) {
    for (const auto& [bytes, messages] : examples()) {
        reader from;
        feed(from, std::string_view(bytes).substr(0, bytes.size() - 1));
        EXPECT_EQ(drain(from).size(), messages.size() - 1) << bytes;
        feed(from, std::string_view(bytes).substr(bytes.size() - 1));
        EXPECT_EQ(drain(from), std::vector{messages.back()}) << bytes;
    }
}

TEST(resp_reader, pipelined_messages_are_returned_one_by_one_and_in_order) {
    std::string bytes;
    std::vector<std::string> messages;
    for (const auto& each : examples()) {
        bytes += each.bytes;
        std::ranges::copy(each.messages, std::back_inserter(messages));
    }
    EXPECT_EQ(messages_in(bytes), messages);
    EXPECT_EQ(messages_in_pieces(bytes, {1}), messages);
    EXPECT_EQ(messages_in_pieces(bytes, {5, 1, 17, 3}), messages);
}

TEST(resp_reader, a_reader_without_bytes_has_no_messages) {
    reader from;
    EXPECT_FALSE(from.next());
    feed(from, "");
    EXPECT_FALSE(from.next());
}

TEST(resp_reader, messages_are_views_of_the_received_bytes) {
    reader from;
    feed(from, "*2\r\n$5\r\nfirst\r\n:2\r\n+next\r\n");
    const auto message = from.next();
    ASSERT_TRUE(message);
    EXPECT_EQ((*message)[0].text(), "first");
    const auto second = from.next();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->text(), "next");
}

TEST(resp_value, parts_that_a_value_does_not_have_are_empty) {
    reader from;
    feed(from, "+text\r\n:1\r\n_\r\n*1\r\n:5\r\n");
    const auto text = *from.next();
    EXPECT_EQ(text.type(), kind::simple_string);
    EXPECT_EQ(text.integer(), 0);
    EXPECT_EQ(text.size(), 0U);
    EXPECT_EQ(text.begin(), text.end());
    EXPECT_FALSE(text.is_null());
    EXPECT_FALSE(text.is_error());
    const auto number = *from.next();
    EXPECT_EQ(number.type(), kind::integer);
    EXPECT_EQ(number.text(), "");
    const auto null = *from.next();
    EXPECT_TRUE(null.is_null());
    EXPECT_EQ(null.text(), "");
    const auto array = *from.next();
    EXPECT_EQ(array.text(), "");
    EXPECT_EQ(array.integer(), 0);
}

TEST(resp_value, errors_of_both_forms_are_errors) {
    reader from;
    feed(from, "-WRONGTYPE x\r\n!5\r\nERR y\r\n");
    for (const auto* text : {"WRONGTYPE x", "ERR y"}) {
        const auto message = from.next();
        ASSERT_TRUE(message);
        EXPECT_TRUE(message->is_error());
        EXPECT_EQ(message->text(), text);
    }
}

TEST(resp_value, elements_are_found_by_their_index) {
    reader from;
    feed(from, "*3\r\n:1\r\n:2\r\n:3\r\n*3\r\n*2\r\n:1\r\n:2\r\n:3\r\n%1\r\n:4\r\n:5\r\n");
    const auto flat = *from.next();
    EXPECT_EQ(flat[0].integer(), 1);
    EXPECT_EQ(flat[2].integer(), 3);
    const auto nested = *from.next();
    EXPECT_EQ(nested[0][1].integer(), 2);
    EXPECT_EQ(nested[1].integer(), 3);
    EXPECT_EQ(nested[2].type(), kind::map);
    EXPECT_EQ(nested[2][1].integer(), 5);
}

TEST(resp_value, beyond_the_last_element_there_are_nulls) {
    reader from;
    feed(from, "*1\r\n:1\r\n:2\r\n");
    const auto array = *from.next();
    EXPECT_TRUE(array[1].is_null());
    EXPECT_TRUE(array[1][7].is_null());
    EXPECT_EQ(array[1].text(), "");
    EXPECT_TRUE((*from.next())[0].is_null());
}

void expect_refused(const std::vector<std::string>& refused) {
    for (const auto& bytes : refused) {
        EXPECT_EQ(message_in(bytes), "malformed") << bytes;
        EXPECT_EQ(messages_in_pieces(bytes, {1}), std::vector{"malformed"s}) << bytes;
        EXPECT_EQ(messages_in(":1\r\n" + bytes), (std::vector{"1"s, "malformed"s})) << bytes;
    }
}

TEST(resp_reader, unknown_types_are_refused) {
    expect_refused({"HTTP/1.1 400 Bad Request\r\n", "x", "\r\n", "\n", " ", "\0"s, "\x80"s, ".\r\n",
                    ";0\r\n"});
}

TEST(resp_reader, lines_that_do_not_end_with_cr_and_lf_are_refused) {
    expect_refused(
        {"+OK\rx", "+OK\r\r\n", "+a\nb\r\n", "-a\nb\r\n", ":1\n\r\n", "_\n\r\n", "$1\n\r\n"});
}

TEST(resp_reader, lengths_that_are_not_plain_decimal_numbers_are_refused) {
    expect_refused({"$\r\n",
                    "$+1\r\n",
                    "$-2\r\n",
                    "$-0\r\n",
                    "$-01\r\n",
                    "$--1\r\n",
                    "$-\r\n",
                    "$1 \r\n",
                    "$ 1\r\n",
                    "$1a\r\n",
                    "$0x1\r\n",
                    "$1.0\r\n",
                    "$?\r\n",
                    "$18446744073709551616\r\n",
                    "$9223372036854775808\r\n",
                    "*\r\n",
                    "*+1\r\n",
                    "*-2\r\n",
                    "*?\r\n",
                    "*1a\r\n",
                    "*18446744073709551617\r\n",
                    "!-1\r\n",
                    "!\r\n",
                    "=-1\r\n",
                    "=\r\n",
                    "~-1\r\n",
                    "~?\r\n",
                    "%-1\r\n",
                    "%?\r\n",
                    "%\r\n",
                    ">-1\r\n",
                    ">\r\n",
                    "|-1\r\n",
                    "|?\r\n",
                    "|\r\n",
                    "%9223372036854775807\r\n",
                    "|9223372036854775807\r\n"});
}

TEST(resp_reader, strings_longer_or_shorter_than_their_announced_length_are_refused) {
    expect_refused({"$1\r\nab\r\n", "$2\r\na\r\n\r\n", "$1\r\na\n\r", "$0\r\n\n\r", "!1\r\nab\r\n",
                    "=5\r\ntxt:ab\r\n"});
}

TEST(resp_reader, verbatim_strings_without_a_format_are_refused) {
    expect_refused({"=0\r\n\r\n", "=3\r\ntxt\r\n", "=5\r\nplain\r\n"});
}

TEST(resp_reader, malformed_and_overflowing_numbers_are_refused) {
    expect_refused({":\r\n",
                    ":+\r\n",
                    ":-\r\n",
                    ":+-1\r\n",
                    ":--1\r\n",
                    ":++1\r\n",
                    ":1 \r\n",
                    ": 1\r\n",
                    ":1.0\r\n",
                    ":1e3\r\n",
                    ":9223372036854775808\r\n",
                    ":-9223372036854775809\r\n",
                    ":x\r\n",
                    ",\r\n",
                    ",.5\r\n",
                    ",-\r\n",
                    ",+inf\r\n",
                    ",Inf\r\n",
                    ",infinity\r\n",
                    ",-nan\r\n",
                    ",1.5x\r\n",
                    ",1e\r\n",
                    ",1e+\r\n",
                    ",1e1.5\r\n",
                    ",1.2.3\r\n",
                    ",0x10\r\n",
                    ", 1\r\n",
                    ",1 \r\n",
                    ",1,5\r\n",
                    "(\r\n",
                    "(+\r\n",
                    "(1.5\r\n",
                    "(1e3\r\n",
                    "(12x\r\n",
                    "(0x1\r\n"});
}

TEST(resp_reader, booleans_and_nulls_have_one_spelling) {
    expect_refused(
        {"#\r\n", "#T\r\n", "#true\r\n", "#1\r\n", "# t\r\n", "#tt\r\n", "_x\r\n", "_-1\r\n"});
}

TEST(resp_reader, a_push_inside_another_value_is_refused) {
    expect_refused({"*1\r\n>1\r\n", "%1\r\n:1\r\n>0\r\n", ">1\r\n>1\r\n", "|1\r\n>1\r\n",
                    "*1\r\n|0\r\n>0\r\n"});
}

TEST(resp_reader, a_value_refused_on_its_own_is_refused_inside_others) {
    expect_refused({"*2\r\n:1\r\nx", "*1\r\n%1\r\n+a\r\n$-2\r\n", "|1\r\n+a\r\n:x\r\n:1\r\n"});
}

TEST(resp_reader, another_protocol_is_refused_at_its_first_byte) {
    EXPECT_EQ(message_in("H"), "malformed");
}

TEST(resp_reader, after_a_refusal_there_are_no_more_messages) {
    for (const auto* refused : {"x", ":x\r\n", "*1\r\n:x\r\n", "$1\r\nxx\n"}) {
        reader from;
        feed(from, refused);
        EXPECT_THROW((void)from.next(), malformed) << refused;
        EXPECT_THROW((void)from.next(), malformed) << refused;
        feed(from, "+OK\r\n");
        EXPECT_THROW((void)from.next(), malformed) << refused;
    }
}

TEST(resp_reader, refusals_repeat_no_received_bytes) {
    for (const auto* bytes :
         {":secret\r\n", "$secret\r\n", "*secret\r\n", ",secret\r\n", "(secret\r\n", "#secret\r\n",
          "_secret\r\n", "secret", "=6\r\nsecret\r\n", "$3\r\nsecret\r\n", "+secret\nsecret\r\n"}) {
        reader from;
        feed(from, bytes);
        try {
            (void)from.next();
            ADD_FAILURE() << bytes;
        } catch (const malformed& refusal) {
            EXPECT_EQ(std::string(refusal.what()).find("secret"), std::string::npos) << bytes;
            EXPECT_NE(std::string(refusal.what()), "") << bytes;
        }
    }
}

/// Whether a reader with these limits refuses `bytes`, however they arrive.
bool refused(std::string_view bytes, const limits& caps) {
    const bool at_once = messages_in(bytes, caps) == std::vector{"malformed"s};
    const bool in_pieces = messages_in_pieces(bytes, {1}, caps) == std::vector{"malformed"s};
    EXPECT_EQ(at_once, in_pieces) << bytes;
    return at_once;
}

TEST(resp_limits, strings_may_reach_their_limit_and_not_exceed_it) {
    const limits caps = {.bulk_bytes = 5};
    EXPECT_EQ(message_in("$5\r\nhello\r\n", caps), "bulk5\"hello\"");
    EXPECT_TRUE(refused("$6\r\n", caps));
    EXPECT_EQ(message_in("!5\r\nhello\r\n", caps), "error5\"hello\"");
    EXPECT_TRUE(refused("!6\r\n", caps));
    EXPECT_EQ(message_in("=5\r\ntxt:x\r\n", caps), "verbatim1\"x\"");
    EXPECT_TRUE(refused("=6\r\n", caps));
}

TEST(resp_limits, lines_may_reach_their_limit_and_not_exceed_it) {
    const limits caps = {.line_bytes = 3};
    for (const auto* line :
         {"+abc\r\n", "-abc\r\n", ":123\r\n", ",1.5\r\n", "(123\r\n", "$000\r\n\r\n", "*000\r\n"}) {
        EXPECT_FALSE(refused(line, caps)) << line;
    }
    for (const auto* line :
         {"+abcd", "-abcd", ":1234", ",1.25", "(1234", "$0000", "*0000", "_    "})
        EXPECT_TRUE(refused(line, caps)) << line;
    EXPECT_TRUE(refused("+abcd\r\n", caps));
}

TEST(resp_limits, messages_may_reach_their_limit_and_not_exceed_it) {
    const std::vector<std::string> messages = {
        "+OK\r\n", "$5\r\nhello\r\n", "*2\r\n$1\r\na\r\n:17\r\n", "%1\r\n+a\r\n_\r\n",
        "*0\r\n",  "$-1\r\n",         "|1\r\n:1\r\n:2\r\n:3\r\n"};
    for (const auto& message : messages) {
        EXPECT_FALSE(refused(message, {.message_bytes = message.size()})) << message;
        EXPECT_TRUE(refused(message, {.message_bytes = message.size() - 1})) << message;
        // The limit is for each message, not for all together.
        EXPECT_EQ(messages_in(message + message, {.message_bytes = message.size()}).size(), 2U);
    }
}

TEST(resp_limits, a_string_that_would_exceed_its_message_is_refused_by_its_header) {
    EXPECT_FALSE(refused("*2\r\n:1\r\n$3\r\n", {.message_bytes = 17}));
    EXPECT_TRUE(refused("*2\r\n:1\r\n$3\r\n", {.message_bytes = 16}));
}

TEST(resp_limits, the_number_of_values_may_reach_its_limit_and_not_exceed_it) {
    struct {
        std::string bytes;
        std::size_t values;
    } const messages[] = {
        {":1\r\n", 1},
        {"*3\r\n:1\r\n:2\r\n:3\r\n", 4},
        {"~1\r\n:1\r\n", 2},
        {">1\r\n:1\r\n", 2},
        {"%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", 5},
        {"*2\r\n*1\r\n:1\r\n*1\r\n:2\r\n", 5},
        {"|1\r\n:1\r\n:2\r\n:3\r\n", 4},
        {"|0\r\n|0\r\n:3\r\n", 3},
    };
    for (const auto& [bytes, values] : messages) {
        EXPECT_FALSE(refused(bytes, {.elements = values})) << bytes;
        EXPECT_TRUE(refused(bytes, {.elements = values - 1})) << bytes;
        EXPECT_EQ(messages_in(bytes + bytes, {.elements = values}).size(), 2U) << bytes;
    }
}

TEST(resp_limits, too_many_values_are_refused_by_their_header) {
    EXPECT_TRUE(refused("*4\r\n", {.elements = 4}));
    EXPECT_TRUE(refused("%2\r\n", {.elements = 4}));
    EXPECT_TRUE(refused("*2\r\n*2\r\n", {.elements = 4}));
    EXPECT_FALSE(refused("*2\r\n*1\r\n", {.elements = 4}));
    for (const auto* header : {"*1000000000\r\n", "%1000000000\r\n", "~9223372036854775807\r\n"})
        EXPECT_TRUE(refused(header, {})) << header;
}

TEST(resp_limits, the_depth_of_aggregates_may_reach_its_limit_and_not_exceed_it) {
    for (const auto* opening : {"*1\r\n", "~1\r\n", "|1\r\n:1\r\n"}) {
        std::string deep;
        for (int level = 0; level < 8; ++level)
            deep += opening;
        EXPECT_FALSE(refused(deep + ":1\r\n", {})) << deep;
        EXPECT_FALSE(refused(deep + "*-1\r\n", {})) << deep;
        EXPECT_TRUE(refused(deep + "*0\r\n", {})) << deep;
        EXPECT_TRUE(refused(deep + "|0\r\n", {})) << deep;
        EXPECT_TRUE(refused(deep + opening, {})) << deep;
    }
    EXPECT_FALSE(refused("*2\r\n*1\r\n:1\r\n*1\r\n:1\r\n", {.depth = 2}));
    EXPECT_FALSE(refused(":1\r\n", {.depth = 0}));
    EXPECT_TRUE(refused("*0\r\n", {.depth = 0}));
}

TEST(resp_limits, the_largest_limits_limit_nothing) {
    constexpr auto endless = std::numeric_limits<std::size_t>::max();
    const limits caps = {endless, endless, endless, endless, endless};
    for (const auto& [bytes, messages] : examples())
        EXPECT_EQ(messages_in(bytes, caps), messages) << bytes;
    EXPECT_FALSE(refused("$9223372036854775807\r\nx", caps));
}

TEST(resp_memory, announced_bytes_take_no_memory_before_they_arrive) {
    for (const auto* header : {"*65535\r\n", "%32767\r\n", "$1048576\r\n", "=1048576\r\n"}) {
        reader from;
        feed(from, header);
        EXPECT_FALSE(from.next());
        EXPECT_LT(from.memory(), 16'384U) << header;
    }
}

TEST(resp_memory, does_not_grow_with_the_number_of_messages) {
    reader from;
    const std::string message = "*3\r\n$3\r\nkey\r\n:1700000000000\r\n$2\r\nid\r\n";
    for (int round = 0; round < 10'000; ++round) {
        // Pieces that rarely end with a message, so that unread bytes are always left.
        feed(from, message + message.substr(0, 10));
        while (from.next()) {
        }
        feed(from, message.substr(10));
        while (from.next()) {
        }
    }
    EXPECT_LE(from.memory(), 16'384U);
}

TEST(resp_memory, memory_of_a_huge_message_is_freed) {
    const std::string text(1'000'000, 'x');
    std::string strings;
    redis::resp::append_command_header(strings, 10);
    for (int i = 0; i < 10; ++i)
        redis::resp::append_bulk(strings, text);
    std::string numbers = "*60000\r\n";
    for (int i = 0; i < 60'000; ++i)
        numbers += ":1\r\n";

    for (const auto& huge : {strings, numbers}) {
        reader from;
        for (std::string_view rest = huge; !rest.empty();
             rest.remove_prefix(std::min<std::size_t>(rest.size(), 4096))) {
            feed(from, rest.substr(0, 4096));
            const auto message = from.next();
            EXPECT_EQ(message.has_value(), rest.size() <= 4096);
        }
        EXPECT_GT(from.memory(), 1'000'000U);
        // The last piece belongs to an incomplete message, as on a busy connection.
        for (int round = 0; round < 2; ++round) {
            feed(from, "+OK\r\n+O");
            EXPECT_EQ(drain(from), std::vector{"simple2\"OK\""s});
            feed(from, "K\r\n");
            EXPECT_EQ(drain(from), std::vector{"simple2\"OK\""s});
        }
        EXPECT_LT(from.memory(), 200'000U);
    }
}

TEST(resp_memory, a_reader_that_falls_behind_loses_nothing) {
    reader from;
    int written = 0;
    int read = 0;
    for (int round = 0; round < 3000; ++round) {
        for (int i = 0; i < 3; ++i)
            feed(from, ":" + std::to_string(written++) + "\r\n");
        for (int i = 0; i < 2; ++i) {
            const auto message = from.next();
            ASSERT_TRUE(message);
            ASSERT_EQ(message->integer(), read++);
        }
    }
    while (const auto message = from.next())
        ASSERT_EQ(message->integer(), read++);
    EXPECT_EQ(read, written);
}

TEST(resp_memory, excessive_room_is_refused_and_changes_nothing) {
    reader from;
    feed(from, ":1\r");
    EXPECT_THROW((void)from.prepare(std::numeric_limits<std::size_t>::max()), std::length_error);
    feed(from, "\n");
    EXPECT_EQ(drain(from), std::vector{"1"s});
}

TEST(resp_writer, commands_are_arrays_of_bulk_strings) {
    std::string out = "before ";
    redis::resp::append_command_header(out, 4);
    redis::resp::append_bulk(out, "SET");
    redis::resp::append_bulk(out, "a\r\n\0"s);
    redis::resp::append_bulk(out, "");
    redis::resp::append_bulk(out, std::int64_t{-30});
    EXPECT_EQ(out, "before *4\r\n$3\r\nSET\r\n$4\r\na\r\n\0\r\n$0\r\n\r\n$3\r\n-30\r\n"s);
}

TEST(resp_writer, the_longest_numbers_fit) {
    std::string out;
    redis::resp::append_command_header(out, std::numeric_limits<std::size_t>::max());
    redis::resp::append_bulk(out, std::numeric_limits<std::int64_t>::min());
    redis::resp::append_bulk(out, std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(
        out,
        "*18446744073709551615\r\n$20\r\n-9223372036854775808\r\n$19\r\n9223372036854775807\r\n");
}

/// Makes random values, in their encoded form and as they must be parsed.
class random_values {
  public:
    explicit random_values(std::uint64_t seed) : random_(seed) {}

    std::size_t below(std::size_t bound) {
        return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
    }

    /// A top-level value, which may be a push.
    example message() { return below(8) == 0 ? aggregate('>', "push", 1, 0) : any(0); }

  private:
    example any(std::size_t depth) {
        std::string attribute;
        if (depth < 7 && below(16) == 0) attribute = aggregate('|', "attribute", 2, depth).bytes;
        auto plain = without_attribute(depth);
        plain.bytes.insert(0, attribute);
        return plain;
    }

    example without_attribute(std::size_t depth) {
        switch (below(depth < 6 ? 13 : 10)) {
            case 0:
                return line('+', "simple", text("abc {}$*:", 20));
            case 1:
                return line('-', "error", text("ERR abc", 20));
            case 2: {
                const auto number = static_cast<std::int64_t>(random_());
                return {":" + std::to_string(number) + "\r\n", {std::to_string(number)}};
            }
            case 3:
                return bulk('$', "bulk", "");
            case 4:
                return bulk('!', "error", "");
            case 5:
                return bulk('=', "verbatim", "txt:");
            case 6:
                return {std::vector<std::string>{"_\r\n", "$-1\r\n", "*-1\r\n"}[below(3)],
                        {"null"}};
            case 7:
                return below(2) == 0 ? example{"#t\r\n", {"true"}} : example{"#f\r\n", {"false"}};
            case 8:
                return line(',', "double",
                            "-1" + text("0123456789", 5) + "." + text("0123456789", 5));
            case 9:
                return line('(', "big", "7" + text("0123456789", 60));
            case 10:
                return aggregate('*', "array", 1, depth);
            case 11:
                return aggregate('~', "set", 1, depth);
            default:
                return aggregate('%', "map", 2, depth);
        }
    }

    std::string text(std::string_view alphabet, std::size_t longest) {
        std::string generated(below(longest + 1), ' ');
        for (auto& c : generated)
            c = alphabet[below(alphabet.size())];
        return generated;
    }

    static std::string quoted(const std::string& name, const std::string& content) {
        return name + std::to_string(content.size()) + '"' + content + '"';
    }

    static example line(char type, const char* name, const std::string& content) {
        return {type + content + "\r\n", {quoted(name, content)}};
    }

    example bulk(char type, const char* name, const std::string& prefix) {
        const auto content = text("\r\n$*+-_\0\xff ab"s, below(50) == 0 ? 10'000 : 30);
        return {type + std::to_string(prefix.size() + content.size()) + "\r\n" + prefix + content +
                    "\r\n",
                {quoted(name, content)}};
    }

    example aggregate(char type, const std::string& name, std::size_t values_for_each,
                      std::size_t depth) {
        const auto length = below(4);
        const auto size = length * values_for_each;
        example whole = {type + std::to_string(length) + "\r\n",
                         {name + std::to_string(size) + '['}};
        for (std::size_t i = 0; i < size; ++i) {
            const auto inside = any(depth + 1);
            whole.bytes += inside.bytes;
            whole.messages.front() += inside.messages.front() + ' ';
        }
        whole.messages.front() += ']';
        return whole;
    }

    std::mt19937_64 random_;
};

std::uint64_t test_seed() {
    if (const char* chosen = std::getenv("SYNCGUARD_TEST_SEED")) {
        return std::strtoull(chosen, nullptr, 10);
    }
    return std::random_device()();
}

TEST(resp_reader, random_messages_in_random_pieces_are_parsed) {
    const auto seed = test_seed();
    SCOPED_TRACE("SYNCGUARD_TEST_SEED=" + std::to_string(seed));
    random_values random(seed);
    for (int round = 0; round < 200; ++round) {
        std::string bytes;
        std::vector<std::string> messages;
        for (int i = 0; i < 20; ++i) {
            const auto generated = random.message();
            bytes += generated.bytes;
            messages.push_back(generated.messages.front());
        }
        std::vector<std::size_t> pieces(bytes.size());
        const auto longest = 1 + random.below(200);
        for (auto& piece : pieces)
            piece = 1 + random.below(longest);
        ASSERT_EQ(messages_in_pieces(bytes, pieces), messages);
    }
}

}  // namespace
}  // namespace syncguard::test
