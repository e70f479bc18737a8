/// Where things are in the server: locks, the indexes of lock ids, and fence counters, all in one
/// flat space of keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace syncguard::redis {

class key_space {
  public:
    /// Throws `lock_error` (invalid_argument) if locks and counters under this prefix could get
    /// into each other's way, or if it is too long or not valid UTF-8.
    explicit key_space(std::string_view prefix);

    /// Throws `lock_error` (invalid_argument) for a key whose lock would take the place of another
    /// key's lock, index or counter.
    [[nodiscard]] std::string lock_key(std::string_view key) const;
    [[nodiscard]] std::string fence_key(std::string_view lock_key) const;

    /// Whether the names of this key's lock and counter are their prefixes and the unchanged key.
    /// Throws as `lock_key`.
    [[nodiscard]] bool uses_raw_key(std::string_view key) const;
    [[nodiscard]] const std::string& lock_prefix() const noexcept { return lock_prefix_; }
    [[nodiscard]] const std::string& fence_prefix() const noexcept { return fence_prefix_; }

    /// What every index key begins with; the lock id follows.
    [[nodiscard]] const std::string& index_prefix() const noexcept { return index_prefix_; }

  private:
    void refuse_reserved(std::string_view key) const;

    std::string prefix_;
    std::string lock_prefix_;
    std::string fence_prefix_;
    std::size_t max_raw_key_length_ = 0;
    std::string index_prefix_;
    std::string reserved_beginning_;
    bool hashes_names_ = false;  ///< Of the longest keys, at least.
};

}  // namespace syncguard::redis
