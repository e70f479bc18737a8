/// The output of the command: lines for people, or one JSON object with the specification's names.
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

/// The output could not be written completely.
class output_failed : public std::runtime_error {
  public:
    output_failed() : std::runtime_error("cannot write to the standard output") {}
};

/// One value of a result, with its names in the two formats.
struct field {
    std::string_view json_name;
    std::string_view label;
    std::variant<std::string, unix_time, int> value;
};

/// `{"ok":true,...}`, or a line for each field. Throws `output_failed`.
void print_result(format output, const std::vector<field>& fields);

/// `{"ok":true}` with this one value, or a line of text. Throws `output_failed`.
void print_answer(format output, std::string_view json_name, bool answer, std::string_view text);

/// `{"ok":true}`, or a line of text. Throws `output_failed`.
void print_done(format output, std::string_view text);

/// A refusal, which is no system failure: `{"ok":false,"reason":...}` on the standard output,
/// without `reason` if it is empty, and with `cause` if there is one; or a line on the standard
/// error.
void print_refusal(format output, std::string_view reason, std::string_view message,
                   std::string_view cause = {});

/// A failure: `{"ok":false,"error":{...}}` on the standard output, or a line on the standard error.
void print_error(format output, error_code code, std::string_view message);

/// A line for the operator, on the standard error.
void print_warning(std::string_view message);

/// The text in quotes. Control characters and bytes that a terminal cannot show are written as
/// `\xNN`.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Such as `2026-01-01T00:00:00.000Z`.
[[nodiscard]] std::string to_iso_text(unix_time time);

}  // namespace syncguard::cli
