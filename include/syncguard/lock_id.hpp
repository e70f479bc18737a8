/// Lock ids: random ids that authorise release and extension of one lock.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace syncguard {

/// Sixteen random bytes as 22 base64url characters. A value of this type is always well formed.
///
/// Any client that knows a lock id can release the lock: treat it as a secret.
class lock_id {
  public:
    static constexpr std::size_t length = 22;

    /// A new id from the operating system's CSPRNG. Thread-safe; safe in a forked child, which
    /// never repeats an id of its parent. Throws `lock_error` (internal) if the system provides no
    /// random bytes.
    [[nodiscard]] static lock_id generate();

    /// Parses an id. Throws `lock_error` (invalid_argument) unless `text` matches
    /// `^[A-Za-z0-9_-]{22}$`.
    [[nodiscard]] static lock_id parse(std::string_view text);

    /// Whether `text` matches `^[A-Za-z0-9_-]{22}$`.
    [[nodiscard]] static bool is_valid(std::string_view text) noexcept;

    [[nodiscard]] std::string_view str() const noexcept { return {text_.data(), text_.size()}; }
    [[nodiscard]] std::string to_string() const { return std::string(str()); }

    /// Implicit, so that a `lock_id` can be passed where the API takes its text.
    // NOLINTNEXTLINE(google-explicit-constructor)
    operator std::string_view() const noexcept { return str(); }

    friend auto operator<=>(const lock_id&, const lock_id&) noexcept = default;
    friend bool operator==(const lock_id&, const lock_id&) noexcept = default;

  private:
    lock_id() = default;

    std::array<char, length> text_{};
};

/// Throws `lock_error` (invalid_argument) unless `text` is a well-formed lock id. For programs that
/// receive lock ids as text and want to check them early.
void validate_lock_id(std::string_view text);

}  // namespace syncguard

template <>
struct std::hash<syncguard::lock_id> {
    std::size_t operator()(const syncguard::lock_id& id) const noexcept {
        return std::hash<std::string_view>{}(id.str());
    }
};
