/// A parsed RESP message: view of one value and the values inside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace syncguard::redis::resp {

/// The types of RESP3, which include those of RESP2.
enum class kind : std::uint8_t {
    simple_string,
    error,  // '-', and the blob error '!'
    integer,
    bulk_string,
    null,  // '_', and the nulls "$-1" and "*-1" of RESP2
    boolean,
    floating,
    big_number,
    verbatim_string,
    array,
    set,
    map,
    push,
};

/// A value as the reader stores it. The nodes of a message are in the order of their bytes, so that
/// the values inside an aggregate follow it.
struct node {
    kind type = kind::null;
    std::int64_t integer = 0;
    std::size_t offset = 0;  // of the text, from where the message begins
    std::size_t length = 0;  // of the text
    std::size_t size = 0;    // values directly inside
    std::size_t extent = 1;  // nodes, from this one to the last one inside
};

/// A view into the reader, as cheap to copy as a string_view. It is valid until the next call of
/// the reader's next() or prepare().
class value {
  public:
    class iterator;

    /// `first` is one of a message's nodes; `message` is where the message begins.
    value(const char* message, const node& first) noexcept : message_(message), node_(&first) {}

    [[nodiscard]] kind type() const noexcept { return node_->type; }
    [[nodiscard]] bool is_null() const noexcept { return type() == kind::null; }
    [[nodiscard]] bool is_error() const noexcept { return type() == kind::error; }

    /// The text of strings, errors, big numbers and doubles as it was sent, a verbatim string
    /// without its format; empty for other kinds.
    [[nodiscard]] std::string_view text() const noexcept {
        return {message_ + node_->offset, node_->length};
    }

    /// The value of integers and booleans (0 or 1); 0 for other kinds.
    [[nodiscard]] std::int64_t integer() const noexcept { return node_->integer; }

    /// The number of values directly inside: two for each pair of a map; 0 for scalars.
    [[nodiscard]] std::size_t size() const noexcept { return node_->size; }

    /// Iterators over the values directly inside; in a map, keys and values alternate.
    [[nodiscard]] iterator begin() const noexcept;
    [[nodiscard]] iterator end() const noexcept;

    /// The value at `index`, or a null if there are fewer values, so that a reply that is too short
    /// looks like one with a missing value. Constant time if all values inside are scalars, else
    /// linear in `index`.
    [[nodiscard]] value operator[](std::size_t index) const noexcept;

  private:
    const char* message_;
    const node* node_;
};

class value::iterator {
  public:
    // By the C++17 rules, an iterator that returns its values by value is an input iterator.
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::forward_iterator_tag;
    using value_type = value;
    using reference = value;
    using difference_type = std::ptrdiff_t;

    iterator() noexcept = default;
    iterator(const char* message, const node* at) noexcept : message_(message), at_(at) {}

    [[nodiscard]] value operator*() const noexcept { return {message_, *at_}; }
    iterator& operator++() noexcept {
        at_ += at_->extent;
        return *this;
    }
    iterator operator++(int) noexcept {  // NOLINT(cert-dcl21-cpp): std::forward_iterator demands it
        const iterator before = *this;
        ++*this;
        return before;
    }
    friend bool operator==(const iterator&, const iterator&) noexcept = default;

  private:
    const char* message_ = nullptr;
    const node* at_ = nullptr;
};

inline value::iterator value::begin() const noexcept {
    return {message_, node_ + 1};
}

inline value::iterator value::end() const noexcept {
    return {message_, node_ + node_->extent};
}

}  // namespace syncguard::redis::resp
