/// Allocations of the RESP reader, and its state after a failed one.
#include "redis/resp/reader.hpp"
#include "support/failing_allocation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace syncguard::test {
namespace {

using redis::resp::malformed;
using redis::resp::reader;

/// Gives `bytes` to `from` in pieces of `piece` bytes, and counts the messages.
int messages_of(reader& from, std::string_view bytes, std::size_t piece) {
    int messages = 0;
    while (!bytes.empty()) {
        const auto size = std::min(piece, bytes.size());
        std::memcpy(from.prepare(size).data(), bytes.data(), size);
        from.commit(size);
        bytes.remove_prefix(size);
        while (from.next())
            ++messages;
    }
    return messages;
}

TEST(resp_allocation, a_reader_that_has_seen_the_usual_messages_allocates_nothing) {
    std::string replies;
    for (int i = 0; i < 50; ++i) {
        replies +=
            "*3\r\n:1\r\n$15\r\n000000000000042\r\n:1700000030000\r\n+OK\r\n"
            "|1\r\n+ttl\r\n:1\r\n%1\r\n+key\r\n*1\r\n~1\r\n_\r\n-ERR no\r\n>1\r\n+note\r\n";
    }
    for (const std::size_t piece : {1U, 7U, 1000U, 100'000U}) {
        reader from;
        messages_of(from, replies, piece);
        int messages = 0;
        EXPECT_FALSE(with_failing_allocation(0, [&] {
            for (int round = 0; round < 100; ++round)
                messages += messages_of(from, replies, piece);
        })) << piece;
        EXPECT_EQ(messages, 100 * 50 * 5) << piece;
    }
}

TEST(resp_allocation, a_reader_that_was_out_of_memory_returns_no_false_messages) {
    std::string reply = "*40\r\n";
    for (int i = 0; i < 40; ++i)
        reply += "*1\r\n$200\r\n" + std::string(200, 'x') + "\r\n";
    long nth = 0;
    for (;; ++nth) {
        reader from;
        std::size_t received = 0;
        bool in_next = false;
        const auto read_on = [&] {
            while (received < reply.size()) {
                const auto room = from.prepare(1);
                const auto size = std::min(room.size(), reply.size() - received);
                std::memcpy(room.data(), reply.data() + received, size);
                from.commit(size);
                received += size;
                in_next = true;
                const auto message = from.next();
                in_next = false;
                EXPECT_EQ(message.has_value(), received == reply.size());
            }
        };
        if (!with_failing_allocation(nth, read_on)) break;
        if (in_next) {
            EXPECT_THROW((void)from.next(), malformed) << nth;
        } else {
            // A failed reservation of room changes nothing, so that it can be repeated.
            EXPECT_NO_THROW(read_on()) << nth;
        }
        ASSERT_LT(nth, 100);
    }
    EXPECT_GT(nth, 5);
}

}  // namespace
}  // namespace syncguard::test
