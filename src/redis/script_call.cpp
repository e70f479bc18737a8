#include "script_call.hpp"

#include "resp_writer.hpp"
#include "scripts.hpp"

#include <algorithm>
#include <cstdint>

namespace syncguard::redis {

namespace {

using inputs = std::span<const script_input* const>;

/// Those at the beginning that are of the same kind as the first.
inputs first_group(inputs operations) {
    const auto kind = operations.front()->kind();
    const auto end = std::find_if(operations.begin(), operations.end(),
                                  [&](const auto* each) { return each->kind() != kind; });
    return {operations.begin(), end};
}

/// Name, what they share, and how many they are.
constexpr std::size_t arguments_of_a_group = 3;

}  // namespace

bool comes_before(const script_input& one, const script_input& other) noexcept {
    if (one.acquires != other.acquires) return other.acquires;
    return one.acquires && one.kind() < other.kind();
}

void append_call(std::string& out, inputs operations, bool script_is_known) {
    std::size_t keys = 0;
    std::size_t arguments = 0;
    for (const auto* each : operations) {
        keys += each->key_count;
        arguments += each->argument_count;
    }
    for (auto rest = operations; !rest.empty(); rest = rest.subspan(first_group(rest).size()))
        arguments += arguments_of_a_group;

    const auto& script = lock_script();
    resp::append_command_header(out, 3 + keys + arguments);
    resp::append_bulk(out, script_is_known ? "EVALSHA" : "EVAL");
    resp::append_bulk(out, script_is_known ? script.sha1 : script.text);
    resp::append_bulk(out, static_cast<std::int64_t>(keys));
    for (const auto* each : operations)
        out += each->keys();
    for (auto rest = operations; !rest.empty();) {
        const auto group = first_group(rest);
        out += group.front()->kind();
        resp::append_bulk(out, static_cast<std::int64_t>(group.size()));
        for (const auto* each : group)
            out += each->arguments();
        rest = rest.subspan(group.size());
    }
}

}  // namespace syncguard::redis
