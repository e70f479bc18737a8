#include "cli/output.hpp"

#include <syncguard/key.hpp>

#include <boost/json.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>

namespace syncguard::cli {

namespace {

namespace json = boost::json;

void print_line(std::string_view text) {
    // Checked, because a script that reads a lock id must know whether the output is complete.
    if (!(std::cout << text << '\n' << std::flush)) throw output_failed();
}

json::value to_json(const decltype(field::value)& value) {
    if (const auto* time = std::get_if<unix_time>(&value)) return time->time_since_epoch().count();
    if (const auto* number = std::get_if<int>(&value)) return *number;
    return json::string(std::get<std::string>(value));
}

std::string to_text(const decltype(field::value)& value) {
    if (const auto* time = std::get_if<unix_time>(&value)) return to_iso_text(*time);
    if (const auto* number = std::get_if<int>(&value)) return std::to_string(*number);
    return std::get<std::string>(value);
}

bool is_utf8(std::string_view text) {
    try {
        (void)hash_key(text);
        return true;
    } catch (const lock_error&) {
        return false;
    }
}

}  // namespace

std::string in_quotes(std::string_view text) {
    const bool readable = is_utf8(text);
    std::string safe = "'";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !readable)) {
            std::array<char, 5> escaped{};
            (void)std::snprintf(escaped.data(), escaped.size(), "\\x%02x", byte);
            safe += escaped.data();
        } else {
            safe += c;
        }
    }
    return safe + "'";
}

std::string to_iso_text(unix_time time) {
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(time - day);
    std::array<char, 40> text{};
    const int length = std::snprintf(
        text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
        static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
        static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
        static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()),
        static_cast<int>(clock.subseconds().count()));
    return {text.data(), static_cast<std::size_t>(length)};
}

void print_result(format output, const std::vector<field>& fields) {
    if (output == format::json) {
        json::object object{{"ok", true}};
        for (const auto& each : fields)
            object[each.json_name] = to_json(each.value);
        print_line(json::serialize(object));
        return;
    }
    std::string lines;
    for (const auto& each : fields) {
        if (!lines.empty()) lines += '\n';
        lines.append(each.label).append(": ").append(to_text(each.value));
    }
    print_line(lines);
}

void print_answer(format output, std::string_view json_name, bool answer, std::string_view text) {
    if (output == format::json) {
        json::object object{{"ok", true}};
        object[json_name] = answer;
        print_line(json::serialize(object));
    } else {
        print_line(text);
    }
}

void print_done(format output, std::string_view text) {
    print_line(output == format::json ? std::string_view(R"({"ok":true})") : text);
}

void print_refusal(format output, std::string_view reason, std::string_view message,
                   std::string_view cause) {
    if (output == format::human) {
        print_warning(message);
        return;
    }
    json::object object{{"ok", false}};
    if (!reason.empty()) object["reason"] = reason;
    if (!cause.empty()) object["cause"] = cause;
    print_line(json::serialize(object));
}

void print_error(format output, error_code code, std::string_view message) {
    if (output == format::human) {
        print_warning(message);
        return;
    }
    const json::object object{{"ok", false},
                              {"error", {{"code", to_string(code)}, {"message", message}}}};
    // Not checked: a failure to write this error cannot be reported, and the exit code stays that
    // of the error.
    std::cout << json::serialize(object) << std::endl;
}

void print_warning(std::string_view message) {
    std::cerr << "syncguard: " << message << std::endl;
}

}  // namespace syncguard::cli
