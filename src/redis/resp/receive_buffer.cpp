#include "redis/resp/receive_buffer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace syncguard::redis {

namespace {

constexpr std::size_t smallest_block = 4096;
/// Blocks up to this size are never freed.
constexpr std::size_t kept_block = std::size_t{64} * 1024;
/// A larger block is freed when it is this many times as large as needed.
constexpr std::size_t excess = 8;
constexpr std::size_t largest_block = std::size_t{1} << 62U;

std::size_t block_size(std::size_t needed) noexcept {
    return std::max(smallest_block, std::bit_ceil(needed));
}

}  // namespace

std::span<char> receive_buffer::prepare(std::size_t wanted) {
    const std::size_t kept = end_ - begin_;
    if (wanted > largest_block - kept) {
        throw std::length_error("a receive buffer cannot be that large");
    }
    const std::size_t needed = block_size(kept + wanted);
    if (capacity_ > kept_block && capacity_ / excess >= needed) {
        move_to_block_of(std::max(needed, kept_block));
    } else if (capacity_ - end_ < wanted) {
        // Moving no more bytes than have been consumed keeps the work proportional to the bytes
        // received, even if the reader falls behind.
        const bool cheap = kept <= begin_;
        if (cheap && capacity_ - kept >= wanted) {
            if (kept > 0) std::memmove(block_.get(), block_.get() + begin_, kept);
            begin_ = 0;
            end_ = kept;
        } else {
            move_to_block_of(std::max(needed, block_size(capacity_ + 1)));
        }
    }
    return {block_.get() + end_, capacity_ - end_};
}

void receive_buffer::move_to_block_of(std::size_t capacity) {
    auto block = std::make_unique_for_overwrite<char[]>(capacity);
    const std::size_t kept = end_ - begin_;
    if (kept > 0) std::memcpy(block.get(), block_.get() + begin_, kept);
    block_ = std::move(block);
    capacity_ = capacity;
    begin_ = 0;
    end_ = kept;
}

}  // namespace syncguard::redis
