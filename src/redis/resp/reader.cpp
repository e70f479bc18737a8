#include "redis/resp/reader.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace syncguard::redis::resp {

namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::string_view known_types = "+-:$_#,(!=*~%>|";
constexpr std::string_view resp2_null = "-1";
/// A verbatim string begins with three letters for its format, and a colon.
constexpr std::size_t format_length = 4;

/// Memory for `kept_nodes` nodes is never freed; more is freed when it is `excess` times as much as
/// needed.
constexpr std::size_t kept_nodes = 1024;
constexpr std::size_t excess = 8;

[[noreturn]] void refuse(const char* rule) {
    throw malformed(std::string("the server's bytes are not RESP3: ") + rule);
}

[[noreturn]] void refuse_excess(const char* quantity, std::size_t limit) {
    throw malformed(std::string("the server's message is too large: ") + quantity + " exceeds " +
                    std::to_string(limit));
}

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

std::string_view without_digits(std::string_view text) noexcept {
    text.remove_prefix(static_cast<std::size_t>(
        std::find_if_not(text.begin(), text.end(), is_digit) - text.begin()));
    return text;
}

std::string_view without_sign(std::string_view text) noexcept {
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    return text;
}

/// At least one digit, and nothing else.
bool is_digits(std::string_view text) noexcept {
    return !text.empty() && without_digits(text).empty();
}

/// An optional sign, digits, an optional fraction, an optional exponent.
bool is_floating(std::string_view text) noexcept {
    if (text == "inf" || text == "-inf" || text == "nan") return true;
    text = without_sign(text);
    if (text.empty() || !is_digit(text.front())) return false;
    text = without_digits(text);
    if (text.starts_with('.')) text = without_digits(text.substr(1));
    if (text.starts_with('e') || text.starts_with('E'))
        return is_digits(without_sign(text.substr(1)));
    return text.empty();
}

std::int64_t to_integer(std::string_view text) {
    if (!is_digits(without_sign(text))) refuse("an integer has something else than digits");
    if (text.starts_with('+')) text.remove_prefix(1);
    std::int64_t number = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc{}) {
        refuse("an integer has more than 64 bits");
    }
    return number;
}

std::size_t to_length(std::string_view header) {
    if (!is_digits(header)) refuse("a length has something else than digits");
    // Signed, so that adding to a length cannot wrap around.
    std::int64_t length = 0;
    if (std::from_chars(header.data(), header.data() + header.size(), length).ec != std::errc{}) {
        refuse("a length has more than 64 bits");
    }
    return static_cast<std::size_t>(length);
}

bool to_boolean(std::string_view text) {
    if (text != "t" && text != "f") refuse("a boolean is neither true nor false");
    return text == "t";
}

node line_node(kind type, std::size_t offset, std::string_view text) {
    if (text.find('\n') != std::string_view::npos) refuse("a line ends without a CR");
    return {.type = type, .offset = offset, .length = text.size()};
}

}  // namespace

std::optional<value> reader::next() {
    if (broken_) refuse("an earlier message was not, and nothing after it can be understood");
    // Remains set if `parse` throws.
    broken_ = true;
    const auto message = parse();
    broken_ = false;
    return message;
}

std::size_t reader::memory() const noexcept {
    return bytes_.capacity() + nodes_.capacity() * sizeof(node) +
           unfinished_.capacity() * sizeof(unfinished);
}

std::optional<value> reader::parse() {
    if (announced_ == 0) begin_message();
    for (;;) {
        const progress result = take_token();
        if (result == progress::starved) return std::nullopt;
        if (result == progress::whole_value && completes_message()) break;
    }
    const value message(bytes_.unread().data(), nodes_.front());
    bytes_.consume(cursor_);
    cursor_ = 0;
    announced_ = 0;
    return message;
}

void reader::begin_message() {
    if (nodes_.capacity() > kept_nodes && nodes_.capacity() / excess > nodes_.size()) {
        std::vector<node>().swap(nodes_);
    }
    nodes_.clear();
    deliver(1, 1);
}

reader::progress reader::take_token() {
    if (bulk_) return take_bulk(*bulk_);
    if (const auto number = take_small_integer()) {
        return add({.type = kind::integer, .integer = *number});
    }
    const std::size_t start = cursor_;
    const auto found = take_line();
    if (!found) return progress::starved;
    const auto& [offset, text] = *found;
    switch (bytes_.unread()[start]) {
        case '+':
            return add(line_node(kind::simple_string, offset, text));
        case '-':
            return add(line_node(kind::error, offset, text));
        case ':':
            return add({.type = kind::integer, .integer = to_integer(text)});
        case '#':
            return add({.type = kind::boolean, .integer = to_boolean(text) ? 1 : 0});
        case '_':
            if (!text.empty()) refuse("a null has a content");
            return add({.type = kind::null});
        case ',':
            if (!is_floating(text)) refuse("a double is not a number");
            return add(line_node(kind::floating, offset, text));
        case '(':
            if (!is_digits(without_sign(text))) refuse("a big number is not a number");
            return add(line_node(kind::big_number, offset, text));
        case '$':
            return begin_bulk(kind::bulk_string, text);
        case '!':
            return begin_bulk(kind::error, text);
        case '=':
            return begin_bulk(kind::verbatim_string, text);
        case '*':
            return begin_aggregate(kind::array, text);
        case '~':
            return begin_aggregate(kind::set, text);
        case '%':
            return begin_aggregate(kind::map, text);
        case '>':
            return begin_aggregate(kind::push, text);
        default:  // '|', the only one left of the known types
            return begin_attribute(text);
    }
}

/// Fast path for the most common value: a complete integer without a sign that cannot overflow.
/// Advances the cursor. Returns nothing for all other input, which the general path parses.
std::optional<std::int64_t> reader::take_small_integer() {
    constexpr std::size_t max_digits = std::numeric_limits<std::int64_t>::digits10;
    const std::string_view rest = bytes_.unread().substr(cursor_);
    if (!rest.starts_with(':')) return std::nullopt;
    std::int64_t number = 0;
    std::size_t end = 1;
    for (; end < rest.size() && end <= max_digits && is_digit(rest[end]); ++end)
        number = 10 * number + (rest[end] - '0');
    const bool is_whole = end > 1 && rest.substr(end).starts_with(line_end);
    const bool is_allowed =
        end <= limits_.line_bytes && cursor_ + end + line_end.size() <= limits_.message_bytes;
    if (!is_whole || !is_allowed) return std::nullopt;
    cursor_ += end + line_end.size();
    searched_ = 0;
    return number;
}

/// The line at the cursor without its type and its end, if it is complete. Advances the cursor.
std::optional<reader::line> reader::take_line() {
    const std::string_view rest = bytes_.unread().substr(cursor_);
    if (rest.empty()) return std::nullopt;
    // Checked before the line is complete: a server with another protocol may never end a line.
    if (known_types.find(rest.front()) == std::string_view::npos) refuse("a value of unknown type");

    const std::string_view content = rest.substr(1);
    const std::size_t length = std::min(content.find('\r', searched_), content.size());
    if (length > limits_.line_bytes) refuse_excess("the length of a line", limits_.line_bytes);
    const std::string_view end = content.substr(length, line_end.size());
    if (end.size() < line_end.size()) {
        searched_ = length;
        return std::nullopt;
    }
    if (end != line_end) refuse("a CR without an LF");

    const std::size_t offset = cursor_ + 1;
    cursor_ = offset + length + line_end.size();
    searched_ = 0;
    if (cursor_ > limits_.message_bytes) refuse_excess("its size in bytes", limits_.message_bytes);
    return line{.offset = offset, .text = content.substr(0, length)};
}

reader::progress reader::begin_bulk(kind type, std::string_view header) {
    if (type == kind::bulk_string && header == resp2_null) return add({.type = kind::null});
    const std::size_t length = to_length(header);
    if (length > limits_.bulk_bytes) refuse_excess("the length of a string", limits_.bulk_bytes);
    if (length + line_end.size() > limits_.message_bytes - cursor_) {
        refuse_excess("its size in bytes", limits_.message_bytes);
    }
    if (type == kind::verbatim_string && length < format_length) {
        refuse("a verbatim string without a format");
    }
    bulk_ = announced_bulk{.type = type, .length = length};
    return progress::inside;
}

reader::progress reader::take_bulk(const announced_bulk& bulk) {
    const std::string_view rest = bytes_.unread().substr(cursor_);
    if (rest.size() < bulk.length + line_end.size()) return progress::starved;
    if (rest.substr(bulk.length, line_end.size()) != line_end) {
        refuse("a string does not end where it should");
    }
    std::size_t format = 0;
    if (bulk.type == kind::verbatim_string) {
        format = format_length;
        if (rest[format - 1] != ':') refuse("a verbatim string without a format");
    }
    const node text = {
        .type = bulk.type, .offset = cursor_ + format, .length = bulk.length - format};
    cursor_ += bulk.length + line_end.size();
    bulk_.reset();
    return add(text);
}

reader::progress reader::begin_aggregate(kind type, std::string_view header) {
    if (type == kind::array && header == resp2_null) return add({.type = kind::null});
    if (type == kind::push && !unfinished_.empty()) refuse("a push inside another value");
    const std::size_t values_for_each = type == kind::map ? 2 : 1;
    const std::size_t length = to_length(header);
    deliver(length, values_for_each);
    const std::size_t size = length * values_for_each;
    open({.node = nodes_.size(), .missing = size, .is_attribute = false});
    nodes_.push_back({.type = type, .size = size});
    if (size > 0) return progress::inside;
    unfinished_.pop_back();
    return progress::whole_value;
}

/// An attribute counts as a value of the message and as a level, but leaves no node.
reader::progress reader::begin_attribute(std::string_view header) {
    const std::size_t length = to_length(header);
    deliver(1, 1);
    deliver(length, 2);
    open({.node = nodes_.size(), .missing = length * 2, .is_attribute = true});
    if (length == 0) unfinished_.pop_back();
    return progress::inside;
}

void reader::deliver(std::size_t elements, std::size_t values_for_each) {
    if (elements > (limits_.elements - announced_) / values_for_each) {
        refuse_excess("the number of its values", limits_.elements);
    }
    announced_ += elements * values_for_each;
}

void reader::open(const unfinished& aggregate) {
    if (unfinished_.size() == limits_.depth) refuse_excess("its depth", limits_.depth);
    unfinished_.push_back(aggregate);
}

reader::progress reader::add(const node& scalar) {
    nodes_.push_back(scalar);
    return progress::whole_value;
}

/// Whether the value that has just been completed is the last one of the message. Closes all
/// aggregates that it completes.
bool reader::completes_message() {
    while (!unfinished_.empty()) {
        if (--unfinished_.back().missing > 0) return false;
        const unfinished closed = unfinished_.back();
        unfinished_.pop_back();
        const auto first = nodes_.begin() + static_cast<std::ptrdiff_t>(closed.node);
        if (closed.is_attribute) {
            // The value that the attribute describes follows.
            nodes_.erase(first, nodes_.end());
            return false;
        }
        first->extent = nodes_.size() - closed.node;
    }
    return true;
}

}  // namespace syncguard::redis::resp
