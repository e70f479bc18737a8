#include "cli/duration.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace syncguard::cli {

namespace {

struct unit {
    std::string_view name;
    milliseconds length;
};

/// From the longest to the shortest, as `to_text` requires.
constexpr std::array units{
    unit{"h", std::chrono::hours{1}},
    unit{"m", std::chrono::minutes{1}},
    unit{"s", std::chrono::seconds{1}},
    unit{"ms", milliseconds{1}},
};

std::string in_quotes(std::string_view text) {
    return std::string("'").append(text).append("'");
}

}  // namespace

milliseconds parse_duration(std::string_view text) {
    constexpr auto expected = "write a whole number and its unit, such as 500ms, 30s, 5m or 2h";

    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error == std::errc::result_out_of_range) {
        throw bad_duration(in_quotes(text) + " is too long a duration");
    }
    if (error != std::errc{}) throw bad_duration(in_quotes(text) + " is no duration: " + expected);
    const std::string_view name(end, static_cast<std::size_t>(text.data() + text.size() - end));
    if (name.empty()) {
        throw bad_duration(in_quotes(text) + " has no unit: did you mean " + std::string(text) +
                           "s or " + std::string(text) + "ms?");
    }
    for (const auto& candidate : units) {
        if (name != candidate.name) continue;
        if (count <= 0) throw bad_duration(in_quotes(text) + " is not longer than nothing");
        if (count > milliseconds::max() / candidate.length) {
            throw bad_duration(in_quotes(text) + " is too long a duration");
        }
        return count * candidate.length;
    }
    throw bad_duration(in_quotes(text) + " is no duration: " + expected);
}

milliseconds parse_seconds(std::string_view text) {
    double seconds = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(seconds) ||
        seconds < 0) {
        throw bad_duration(in_quotes(text) +
                           " is no number of seconds: write it without a unit, such as 5 or 0.25");
    }
    // A thousand years: far below the limit of `milliseconds`.
    constexpr double longest = 1000.0 * 365 * 24 * 3600;
    if (seconds > longest) throw bad_duration(in_quotes(text) + " seconds are too long to wait");
    return milliseconds(static_cast<milliseconds::rep>(std::ceil(seconds * 1000)));
}

std::string to_text(milliseconds duration) {
    for (const auto& candidate : units) {
        if (duration % candidate.length == milliseconds{0}) {
            return std::to_string(duration / candidate.length) + std::string(candidate.name);
        }
    }
    return {};
}

}  // namespace syncguard::cli
