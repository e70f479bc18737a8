/// What the command tells: lines for people, or one JSON object with the specification's names.
#pragma once

#include <syncguard/error.hpp>
#include <syncguard/time.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace syncguard::cli {

enum class format { human, json };

/// Standard output took not everything that was written.
class output_failed : public std::runtime_error {
  public:
    output_failed() : std::runtime_error("cannot write to the standard output") {}
};

/// One fact of a result, under its name for programs and its name for people.
struct field {
    std::string_view json_name;
    std::string_view label;
    std::variant<std::string, unix_time, int> value;
};

/// `{"ok":true,...}`, or a line for each field. Throws `output_failed`.
void print_result(format output, const std::vector<field>& fields);

/// `{"ok":true}` and this one answer, or a line of text. Throws `output_failed`.
void print_answer(format output, std::string_view json_name, bool answer, std::string_view text);

/// `{"ok":true}`, or a line of text. Throws `output_failed`.
void print_done(format output, std::string_view text);

/// An outcome that is no failure of the system: `{"ok":false,"reason":...}` on the standard
/// output, without `reason` where it is empty, and with `cause` where there is one; or a line on
/// the standard error.
void print_refusal(format output, std::string_view reason, std::string_view message,
                   std::string_view cause = {});

/// A failure: `{"ok":false,"error":{...}}` on the standard output, or a line on the standard error.
void print_error(format output, error_code code, std::string_view message);

/// A line for the operator that never disturbs the standard output.
void print_warning(std::string_view message);

/// In quotes, with bytes that a terminal would obey or cannot show written as `\xNN`.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Such as `2026-01-01T00:00:00.000Z`.
[[nodiscard]] std::string to_iso_text(unix_time time);

}  // namespace syncguard::cli
