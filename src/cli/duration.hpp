/// Parses and formats durations on the command line. Pure.
#pragma once

#include <syncguard/time.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace syncguard::cli {

/// A text is no duration. `what()` is the message for the user.
class bad_duration : public std::invalid_argument {
  public:
    using std::invalid_argument::invalid_argument;
};

/// Reads `500ms`, `30s`, `5m` or `2h`: a whole positive number and its unit. A number without a
/// unit is refused, because a wrong guess would make a TTL a thousand times too short or too long.
/// Throws `bad_duration`.
[[nodiscard]] milliseconds parse_duration(std::string_view text);

/// Reads a number of seconds, with or without a fraction: `0`, `2`, `0.25`. Rounds up to
/// milliseconds. Throws `bad_duration`.
[[nodiscard]] milliseconds parse_seconds(std::string_view text);

/// The shortest text from which `parse_duration` reads this duration.
[[nodiscard]] std::string to_text(milliseconds duration);

}  // namespace syncguard::cli
