#include <syncguard/fence.hpp>

#include <algorithm>
#include <ostream>

namespace syncguard {

fence fence::from_counter(std::uint64_t counter) noexcept {
    fence token;
    for (auto digit = token.digits_.rbegin(); digit != token.digits_.rend() && counter != 0;
         ++digit, counter /= 10) {
        *digit = static_cast<char>('0' + counter % 10);
    }
    return token;
}

std::optional<fence> fence::parse(std::string_view text) noexcept {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (text.size() != length || !std::all_of(text.begin(), text.end(), is_digit)) {
        return std::nullopt;
    }
    fence token;
    std::copy(text.begin(), text.end(), token.digits_.begin());
    return token;
}

std::ostream& operator<<(std::ostream& out, const fence& token) {
    return out << token.str();
}

}  // namespace syncguard
