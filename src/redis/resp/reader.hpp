/// Incremental RESP3 parser. No I/O.
#pragma once

#include "redis/resp/receive_buffer.hpp"
#include "redis/resp/value.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace syncguard::redis::resp {

/// Limits of the memory that a server can make the client hold. A message that announces more is
/// refused as soon as its header is read.
struct limits {
    std::size_t bulk_bytes = std::size_t{1024} * 1024;          // of one string
    std::size_t message_bytes = std::size_t{16} * 1024 * 1024;  // of one message as it is sent
    std::size_t elements = 65'536;                              // values of one message, all levels
    std::size_t depth = 8;                                      // aggregates inside each other
    std::size_t line_bytes = std::size_t{64} * 1024;  // of simple strings, errors, numbers, headers
};

/// The bytes are not RESP3, or exceed a limit. what() names the violated rule and contains no
/// received data.
class malformed : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Takes bytes as they arrive and returns one message after the other. It parses each byte once,
/// however the bytes are split, and allocates nothing once its buffers fit the usual messages.
///
/// Attributes are checked and dropped. Streamed strings and aggregates, which no Redis server
/// sends, are malformed.
class reader {
  public:
    explicit reader(limits caps = {}) noexcept : limits_(caps) {}

    /// Room for at least `wanted` bytes from the network.
    [[nodiscard]] std::span<char> prepare(std::size_t wanted) { return bytes_.prepare(wanted); }

    /// `count` bytes were written into the span that `prepare` returned.
    void commit(std::size_t count) noexcept { bytes_.commit(count); }

    /// The next complete message, or nothing until more bytes arrive; messages of kind::push answer
    /// no command. Throws malformed. After that, and after std::bad_alloc, the reader returns no
    /// more messages, because it does not know where the next one begins.
    [[nodiscard]] std::optional<value> next();

    /// Bytes of memory held.
    [[nodiscard]] std::size_t memory() const noexcept;

  private:
    /// The state after a token, which is a scalar or the header of an aggregate.
    enum class progress : std::uint8_t {
        starved,      // not all of it is here
        inside,       // a value is yet to come
        whole_value,  // the last node is a value with all that is inside it
    };

    /// An aggregate, or an attribute, that lacks values.
    struct unfinished {
        std::size_t node;  // of an attribute: the first one inside
        std::size_t missing;
        bool is_attribute;
    };

    /// A bulk whose header has been read.
    struct announced_bulk {
        kind type;
        std::size_t length;
    };

    /// Text in the message that is being read.
    struct line {
        std::size_t offset;
        std::string_view text;
    };

    void begin_message();
    [[nodiscard]] std::optional<value> parse();
    [[nodiscard]] progress take_token();
    [[nodiscard]] std::optional<std::int64_t> take_small_integer();
    [[nodiscard]] std::optional<line> take_line();
    [[nodiscard]] progress take_bulk(const announced_bulk& bulk);
    [[nodiscard]] progress begin_bulk(kind type, std::string_view header);
    [[nodiscard]] progress begin_aggregate(kind type, std::string_view header);
    [[nodiscard]] progress begin_attribute(std::string_view header);
    void deliver(std::size_t elements, std::size_t values_for_each);
    void open(const unfinished& aggregate);
    [[nodiscard]] progress add(const node& scalar);
    [[nodiscard]] bool completes_message();

    limits limits_;
    receive_buffer bytes_;
    std::vector<node> nodes_;
    std::vector<unfinished> unfinished_;
    std::optional<announced_bulk> bulk_;
    std::size_t announced_ =
        0;                      // values of this message as far as headers tell; 0 between messages
    std::size_t cursor_ = 0;    // where the next token begins in the message
    std::size_t searched_ = 0;  // bytes of the line at the cursor that hold no end of line
    bool broken_ = false;
};

}  // namespace syncguard::redis::resp
