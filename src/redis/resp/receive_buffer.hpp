/// The bytes that came from the network and are not used up yet, in one piece.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace syncguard::redis {

/// One block of memory, used over and over. It grows with what is unread, and a block that has
/// become far too large is given back. Every byte is moved a bounded number of times, on average.
class receive_buffer {
  public:
    /// Room for at least `wanted` bytes. What unread() returned before is no longer good.
    [[nodiscard]] std::span<char> prepare(std::size_t wanted);

    /// `count` bytes were written into that room.
    void commit(std::size_t count) noexcept { end_ += count; }

    [[nodiscard]] std::string_view unread() const noexcept {
        return {block_.get() + begin_, end_ - begin_};
    }

    /// The first `count` unread bytes are used up. They stay where they are until prepare().
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
