#include "core/backend_url.hpp"

#include <syncguard/error.hpp>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace syncguard {

namespace {

bool is_scheme(std::string_view text) noexcept {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '+' || c == '-' || c == '.';
    };
    return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

}  // namespace

std::string percent_decoded(std::string_view text) {
    std::string plain;
    plain.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            plain.push_back(text[i]);
            continue;
        }
        unsigned value = 0;
        const std::string_view digits = text.substr(i + 1, 2);
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2) {
            throw lock_error(error_code::invalid_argument,
                             "a '%' in a backend URL must be followed by two hexadecimal digits; "
                             "write '%25' for the sign itself");
        }
        plain.push_back(static_cast<char>(value));
        i += 2;
    }
    return plain;
}

backend_url::backend_url(std::string_view text) : text_(text) {
    const auto colon = text.find(':');
    const std::string_view scheme = text.substr(0, colon);
    if (colon == std::string_view::npos || !is_scheme(scheme)) {
        // The message does not repeat the text, which may contain a password.
        throw lock_error(error_code::invalid_argument,
                         "a backend URL begins with a scheme and a colon, such as 'sqlite:' or "
                         "'sqlite:/path/to/locks.db'");
    }
    std::transform(scheme.begin(), scheme.end(), std::back_inserter(scheme_), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    std::string_view rest = text.substr(colon + 1);

    const auto question = rest.find('?');
    body_ = rest.substr(0, question);
    if (question == std::string_view::npos) return;
    rest.remove_prefix(question + 1);
    if (body_.starts_with("//") && rest.find('@') != std::string_view::npos) {
        // Probably the '?' and the text after it are part of a password, so the message does not
        // repeat them.
        throw lock_error(error_code::invalid_argument,
                         "in a backend URL a '?' in a user name or password is written '%3F', and "
                         "an '@' in an option '%40'");
    }
    while (!rest.empty()) {
        const auto end = std::min(rest.find('&'), rest.size());
        const std::string_view option = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        const auto equals = option.find('=');
        const std::string name = percent_decoded(option.substr(0, equals));
        if (equals == std::string_view::npos || name.empty()) {
            // The message does not repeat the text: it may be the rest of a password with an '&' in
            // it.
            throw lock_error(error_code::invalid_argument,
                             "an option of a backend URL is written name=value, and an '&' in a "
                             "value '%26'");
        }
        if (!options_.emplace(name, percent_decoded(option.substr(equals + 1))).second) {
            throw lock_error(error_code::invalid_argument,
                             "the backend URL names the option '" + name + "' twice");
        }
    }
}

void backend_url::refuse_options() const {
    if (options_.empty()) return;
    throw lock_error(error_code::invalid_argument, "the backend '" + scheme_ + "' has no option '" +
                                                       options_.begin()->first + "'");
}

}  // namespace syncguard
