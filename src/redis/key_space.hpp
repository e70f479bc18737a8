/// The Redis keys of locks, of the indexes by lock id, and of fence counters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace syncguard::redis {

class key_space {
  public:
    /// Throws `lock_error` (invalid_argument) if keys of locks and counters under this prefix could
    /// collide, or if the prefix is too long or not valid UTF-8.
    explicit key_space(std::string_view prefix);

    /// Throws `lock_error` (invalid_argument) for a key whose lock would have the Redis key of
    /// another key's lock, index or counter.
    [[nodiscard]] std::string lock_key(std::string_view key) const;
    [[nodiscard]] std::string fence_key(std::string_view lock_key) const;

    /// Whether the names of this key's lock and counter are their prefixes and the unchanged key.
    /// Throws as `lock_key`.
    [[nodiscard]] bool uses_raw_key(std::string_view key) const;
    [[nodiscard]] const std::string& lock_prefix() const noexcept { return lock_prefix_; }
    [[nodiscard]] const std::string& fence_prefix() const noexcept { return fence_prefix_; }

    /// The beginning of every index key; the lock id follows.
    [[nodiscard]] const std::string& index_prefix() const noexcept { return index_prefix_; }

  private:
    void refuse_reserved(std::string_view key) const;

    std::string prefix_;
    std::string lock_prefix_;
    std::string fence_prefix_;
    std::size_t max_raw_key_length_ = 0;
    std::string index_prefix_;
    std::string reserved_beginning_;
    bool hashes_names_ = false;  ///< At least those of the longest keys.
};

}  // namespace syncguard::redis
