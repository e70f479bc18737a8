#include "redis/script_call.hpp"

#include "redis/resp/writer.hpp"
#include "redis/scripts.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace syncguard::redis {

namespace {

using args_list = std::span<const script_args* const>;

std::string_view name_of(script_action action) {
    switch (action) {
        case script_action::acquire:
            return "acquire";
        case script_action::acquire_raw_key:
            return "acquire_plain";
        case script_action::release:
            return "release";
        case script_action::release_by_key:
            return "release_known";
        case script_action::extend:
            return "extend";
        case script_action::extend_by_key:
            return "extend_known";
        case script_action::is_locked:
            return "is_locked";
        case script_action::lookup_key:
            return "lookup_key";
        case script_action::lookup_id:
            return "lookup_id";
    }
    return {};
}

/// Groups of adjacent operations of the same kind.
std::vector<args_list> groups_of(args_list operations) {
    std::vector<args_list> groups;
    for (auto begin = operations.begin(); begin != operations.end();) {
        const auto& kind = (*begin)->kind;
        const auto end = std::find_if(begin, operations.end(),
                                      [&](const auto* each) { return each->kind != kind; });
        groups.emplace_back(begin, end);
        begin = end;
    }
    return groups;
}

/// Name, shared argument, and number of operations.
constexpr std::size_t arguments_per_group = 3;

}  // namespace

bool batch_order(const script_args& one, const script_args& other) noexcept {
    if (one.acquires != other.acquires) return other.acquires;
    return one.acquires && one.kind < other.kind;
}

bool extend_same_lock(const script_args& one, const script_args& other) noexcept {
    const auto extends = [](const script_args& args) {
        return args.kind.action == script_action::extend ||
               args.kind.action == script_action::extend_by_key;
    };
    const auto index_key = [](const script_args& args) { return args.key(args.key_count - 1); };
    return extends(one) && extends(other) && index_key(one) == index_key(other);
}

void append_evalsha(std::string& out, args_list operations, bool script_is_known) {
    const auto groups = groups_of(operations);
    std::size_t keys = 0;
    std::size_t arguments = groups.size() * arguments_per_group;
    for (const auto* each : operations) {
        keys += each->key_count;
        arguments += each->argument_count;
    }

    const auto& script = lock_script();
    resp::append_command_header(out, 3 + keys + arguments);
    resp::append_bulk(out, script_is_known ? "EVALSHA" : "EVAL");
    resp::append_bulk(out, script_is_known ? script.sha1 : script.text);
    resp::append_bulk(out, static_cast<std::int64_t>(keys));
    for (const auto& group : groups) {
        for (std::size_t number = 0; number < group.front()->key_count; ++number) {
            for (const auto* each : group)
                out += each->key(number);
        }
    }
    for (const auto& group : groups) {
        const auto& kind = group.front()->kind;
        resp::append_bulk(out, name_of(kind.action));
        if (kind.ttl) {
            resp::append_bulk(out, std::int64_t{kind.ttl->count()});
        } else {
            resp::append_bulk(out, kind.index_prefix);
        }
        resp::append_bulk(out, static_cast<std::int64_t>(group.size()));
        for (const auto* each : group)
            out += each->arguments();
    }
}

}  // namespace syncguard::redis
