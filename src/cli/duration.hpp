/// How people write durations on the command line. Pure.
#pragma once

#include <syncguard/time.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace syncguard::cli {

/// A text that is no duration. `what()` is for the person who typed it.
class bad_duration : public std::invalid_argument {
  public:
    using std::invalid_argument::invalid_argument;
};

/// Reads `500ms`, `30s`, `5m` or `2h`: a whole positive number and its unit. A bare number is
/// refused: a TTL that is a thousand times too short or too long is too costly a guess. Throws
/// `bad_duration`.
[[nodiscard]] milliseconds parse_duration(std::string_view text);

/// Reads a number of seconds, perhaps fractional: `0`, `2`, `0.25`. Rounds up to milliseconds.
/// Throws `bad_duration`.
[[nodiscard]] milliseconds parse_seconds(std::string_view text);

/// The shortest spelling that `parse_duration` reads back.
[[nodiscard]] std::string to_text(milliseconds duration);

}  // namespace syncguard::cli
