#include "base64url.hpp"
#include "fork_generation.hpp"

#include <syncguard/error.hpp>
#include <syncguard/lock_id.hpp>

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>

namespace syncguard {

namespace {

/// Random bytes from the kernel, fetched in bulk because a system call for each id would cost more
/// than everything else. Bytes are wiped as they are used, and a forked child starts afresh.
class random_reserve {
  public:
    std::array<std::uint8_t, 16> take() {
        if (used_ == bytes_.size() || generation_ != fork_generation()) refill();
        std::array<std::uint8_t, 16> taken{};
        const auto next = std::span(bytes_).subspan(used_, taken.size());
        std::copy(next.begin(), next.end(), taken.begin());
        std::fill(next.begin(), next.end(), std::uint8_t{0});
        used_ += taken.size();
        return taken;
    }

  private:
    void refill() {
        std::size_t filled = 0;
        while (filled < bytes_.size()) {
            const ssize_t got = ::getrandom(bytes_.data() + filled, bytes_.size() - filled, 0);
            if (got < 0) {
                if (errno == EINTR) continue;
                throw lock_error(error_code::internal,
                                 "the system's random number generator failed: " +
                                     std::generic_category().message(errno));
            }
            filled += static_cast<std::size_t>(got);
        }
        generation_ = fork_generation();
        used_ = 0;
    }

    std::array<std::uint8_t, 4096> bytes_{};
    std::size_t used_ = bytes_.size();
    std::uint32_t generation_ = 0;
};

}  // namespace

lock_id lock_id::generate() {
    thread_local random_reserve reserve;
    lock_id id;
    id.text_ = base64url(reserve.take());
    return id;
}

bool lock_id::is_valid(std::string_view text) noexcept {
    // A look into a table for each, and none in between whether to go on: ids are mostly valid.
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
