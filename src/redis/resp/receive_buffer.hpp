/// Contiguous buffer of received bytes that are not consumed yet.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace syncguard::redis {

/// One reused block of memory. It grows with the unread bytes, and a block that is far too large is
/// freed. The amortised number of moves per byte is bounded.
class receive_buffer {
  public:
    /// Room for at least `wanted` bytes. Invalidates earlier results of unread().
    [[nodiscard]] std::span<char> prepare(std::size_t wanted);

    /// `count` bytes were written into that room.
    void commit(std::size_t count) noexcept { end_ += count; }

    [[nodiscard]] std::string_view unread() const noexcept {
        return {block_.get() + begin_, end_ - begin_};
    }

    /// Marks the first `count` unread bytes as used. They remain valid until prepare().
    void consume(std::size_t count) noexcept { begin_ += count; }

    /// The size of the block.
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  private:
    void move_to_block_of(std::size_t capacity);

    std::unique_ptr<char[]> block_;
    std::size_t capacity_ = 0;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

}  // namespace syncguard::redis
