/// For any bytes that a server sends, however the network splits them, the reader does not crash,
/// its memory is bounded by the received bytes, and its result is the same.
#include "redis/resp/reader.hpp"
#include "support/resp_notation.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace syncguard::redis::resp;

/// The messages that a reader parsed, and its refusal.
struct account {
    std::vector<std::string> messages;
    std::string refusal;

    friend bool operator==(const account&, const account&) = default;
};

void require(bool holds, const char* property) {
    if (holds) return;
    std::fprintf(stderr, "resp_fuzz: does not hold: %s\n", property);
    std::abort();
}

/// Checks that iteration and indexing return the same elements.
void check_access(const value& aggregate) {
    std::size_t index = 0;
    for (const auto inside : aggregate) {
        require(aggregate[index].type() == inside.type() &&
                    aggregate[index].text().data() == inside.text().data(),
                "an element has one index");
        check_access(inside);
        ++index;
    }
    require(index == aggregate.size(), "there are as many elements as size() says");
    require(aggregate[index].is_null(), "beyond the last element there is a null");
}

void check_memory(const reader& from, std::size_t received) {
    // Three bytes need at most one node, and containers double their sizes.
    const std::size_t fixed = 16'384;
    const std::size_t for_each_byte = 2 * sizeof(node) + 8;
    require(from.memory() <= fixed + received * for_each_byte, "memory is bounded by what arrived");
}

/// Reads `bytes` in pieces of 1 to `longest_piece` bytes. The sizes are taken from the end of the
/// input, so that the whole input is data that a server might send.
account read_in_pieces(std::string_view bytes, std::size_t longest_piece, const limits& caps) {
    reader from(caps);
    account result;
    std::size_t received = 0;
    std::size_t from_the_end = bytes.size();
    try {
        while (received < bytes.size()) {
            const auto choice = static_cast<unsigned char>(bytes[--from_the_end]);
            const auto size = std::min(1 + choice % longest_piece, bytes.size() - received);
            const auto room = from.prepare(size);
            require(room.size() >= size, "there is room for what was asked for");
            std::memcpy(room.data(), bytes.data() + received, size);
            from.commit(size);
            received += size;
            while (const auto message = from.next()) {
                check_access(*message);
                result.messages.push_back(syncguard::test::notation(*message));
            }
            check_memory(from, received);
        }
    } catch (const malformed& refusal) {
        result.refusal = refusal.what();
    }
    return result;
}

account read_at_once(std::string_view bytes, const limits& caps) {
    reader from(caps);
    account result;
    std::memcpy(from.prepare(bytes.size()).data(), bytes.data(), bytes.size());
    from.commit(bytes.size());
    try {
        while (const auto message = from.next())
            result.messages.push_back(syncguard::test::notation(*message));
    } catch (const malformed& refusal) {
        result.refusal = refusal.what();
    }
    check_memory(from, bytes.size());
    return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    // Small limits as well, because inputs are too short to reach the usual ones.
    const limits small = {
        .bulk_bytes = 48, .message_bytes = 256, .elements = 24, .depth = 3, .line_bytes = 40};
    for (const auto& caps : {limits{}, small}) {
        const account whole = read_at_once(bytes, caps);
        for (const std::size_t longest_piece : {1U, 7U, 64U})
            require(read_in_pieces(bytes, longest_piece, caps) == whole,
                    "how the bytes are split does not matter");
    }
    return 0;
}
