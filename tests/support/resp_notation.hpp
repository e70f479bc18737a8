/// Writes parsed RESP values out, so that tests can compare and print them.
#pragma once

#include "redis/resp/value.hpp"

#include <string>

namespace syncguard::test {

/// Different values have different notations, unless they differ only in how they were sent.
inline std::string notation(const redis::resp::value& message) {
    using redis::resp::kind;
    const auto quoted = [&](const char* name) {
        return name + std::to_string(message.text().size()) + '"' + std::string(message.text()) +
               '"';
    };
    const auto listed = [&](const char* name) {
        std::string all = name + std::to_string(message.size()) + '[';
        for (const auto inside : message)
            all += notation(inside) + ' ';
        return all + ']';
    };
    switch (message.type()) {
        case kind::simple_string:
            return quoted("simple");
        case kind::error:
            return quoted("error");
        case kind::integer:
            return std::to_string(message.integer());
        case kind::bulk_string:
            return quoted("bulk");
        case kind::null:
            return "null";
        case kind::boolean:
            return message.integer() != 0 ? "true" : "false";
        case kind::floating:
            return quoted("double");
        case kind::big_number:
            return quoted("big");
        case kind::verbatim_string:
            return quoted("verbatim");
        case kind::array:
            return listed("array");
        case kind::set:
            return listed("set");
        case kind::map:
            return listed("map");
        case kind::push:
            return listed("push");
    }
    return "unknown";
}

}  // namespace syncguard::test
