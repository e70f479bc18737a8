#include "util/base64url.hpp"

#include <syncguard/error.hpp>
#include <syncguard/lock_id.hpp>

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace syncguard {

namespace {

/// One system call for each id. A buffer of random bytes would be repeated in a copy of this
/// memory: a process that was created without fork handlers, or a virtual machine that was resumed
/// twice.
std::array<std::uint8_t, 16> random_bytes() {
    std::array<std::uint8_t, 16> bytes{};
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
        if (got >= 0) {
            filled += static_cast<std::size_t>(got);
        } else if (errno != EINTR) {
            throw lock_error(error_code::internal, "the system's random number generator failed: " +
                                                       std::generic_category().message(errno));
        }
    }
    return bytes;
}

}  // namespace

lock_id lock_id::generate() {
    lock_id id;
    id.text_ = base64url(random_bytes());
    return id;
}

bool lock_id::is_valid(std::string_view text) noexcept {
    // One table lookup for each character and no early exit: most ids are valid.
    static constexpr auto allowed = [] {
        std::array<bool, 256> table{};
        for (std::size_t c = 0; c < table.size(); ++c)
            table[c] = is_base64url(static_cast<char>(c));
        return table;
    }();
    bool all_allowed = text.size() == length;
    for (const char c : text)
        all_allowed &= allowed[static_cast<unsigned char>(c)];
    return all_allowed;
}

lock_id lock_id::parse(std::string_view text) {
    validate_lock_id(text);
    lock_id id;
    std::copy(text.begin(), text.end(), id.text_.begin());
    return id;
}

void validate_lock_id(std::string_view text) {
    if (!lock_id::is_valid(text)) {
        throw lock_error(error_code::invalid_argument,
                         "a lock id is 22 characters of A-Z, a-z, 0-9, '-' and '_'; got " +
                             std::to_string(text.size()) + " bytes that are not");
    }
}

}  // namespace syncguard
