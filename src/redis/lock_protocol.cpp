#include "redis/lock_protocol.hpp"

#include "redis/resp/writer.hpp"
#include "redis/server_error.hpp"

#include <syncguard/error.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>

namespace syncguard::redis {

namespace json = boost::json;

namespace {

/// Builds the arguments of one operation: all keys, then the rest.
class args_builder {
  public:
    explicit args_builder(const batch_key& kind, bool acquires = false)
        : args_{.kind = kind, .acquires = acquires} {
        args_.bytes.reserve(usual_size);
    }

    using parts = std::initializer_list<std::string_view>;

    args_builder& key(parts text) {
        resp::append_bulk(args_.bytes, text);
        args_.ends_of_keys[args_.key_count++] = args_.bytes.size();
        return *this;
    }
    args_builder& argument(parts text) {
        resp::append_bulk(args_.bytes, text);
        ++args_.argument_count;
        return *this;
    }
    [[nodiscard]] script_args take() { return std::move(args_); }

  private:
    static constexpr std::size_t usual_size = 192;

    script_args args_;
};

/// Whether a text needs no escapes in a JSON string.
bool is_plain(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\';
    });
}

struct encoder {
    const key_space& keys;
    bool cleanup;

    script_args operator()(const acquire_request& req) const {
        const std::string_view id = req.id.str();
        if (keys.uses_raw_key(req.key) && is_plain(req.key)) {
            return args_builder({.action = script_action::acquire_raw_key, .ttl = req.ttl}, true)
                .key({keys.lock_prefix(), req.key})
                .key({keys.index_prefix(), id})
                .key({keys.fence_prefix(), req.key})
                .take();
        }
        const std::string lock_key = keys.lock_key(req.key);
        const std::string quoted = json::serialize(json::string_view(req.key));
        return args_builder({.action = script_action::acquire, .ttl = req.ttl}, true)
            .key({lock_key})
            .key({keys.index_prefix(), id})
            .key({keys.fence_key(lock_key)})
            .argument({std::string_view(quoted).substr(1, quoted.size() - 2)})
            .take();
    }
    script_args operator()(const release_request& req) const {
        return owned(req, {.action = req.key.empty() ? script_action::release
                                                     : script_action::release_by_key});
    }
    script_args operator()(const extend_request& req) const {
        return owned(
            req, {.action = req.key.empty() ? script_action::extend : script_action::extend_by_key,
                  .ttl = req.ttl});
    }
    script_args operator()(const is_locked_request& req) const {
        const std::string_view prefix = keys.index_prefix();
        return args_builder(
                   {.action = script_action::is_locked, .index_prefix = cleanup ? prefix : ""})
            .key({keys.lock_key(req.key)})
            .take();
    }
    script_args operator()(const key_lookup_request& req) const {
        return args_builder({.action = script_action::lookup_key})
            .key({keys.lock_key(req.key)})
            .take();
    }
    script_args operator()(const id_lookup_request& req) const {
        return args_builder({.action = script_action::lookup_id})
            .key({keys.index_prefix(), req.id.str()})
            .take();
    }

    /// An operation on a lock by its id: with its key if that is known.
    template <class Request>
    script_args owned(const Request& req, const batch_key& kind) const {
        args_builder args(kind);
        if (req.key.empty()) {
            // The script finds the lock by its index.
        } else if (keys.uses_raw_key(req.key)) {
            args.key({keys.lock_prefix(), req.key});
        } else {
            args.key({keys.lock_key(req.key)});
        }
        return args.key({keys.index_prefix(), req.id.str()}).take();
    }
};

unix_time at(std::int64_t ms) {
    return unix_time(milliseconds(ms));
}

std::string text_of(const json::object& lock, std::string_view field) {
    const auto& value = lock.at(field).as_string();
    return {value.data(), value.size()};
}

/// Other writers may have no integer type: a time may be written as 1.7e12.
unix_time time_of(const json::object& lock, std::string_view field) {
    const auto& value = lock.at(field);
    if (!value.is_double()) return at(value.to_number<std::int64_t>());
    constexpr double exact_integers = 9'007'199'254'740'992;
    const double number = value.get_double();
    if (std::abs(number) > exact_integers) throw std::out_of_range("not a time");
    return at(std::llround(number));
}

std::optional<lock_record> read_record(std::string_view stored) {
    try {
        const json::value parsed = json::parse(json::string_view(stored.data(), stored.size()));
        const auto& lock = parsed.as_object();
        const auto token = fence::parse(text_of(lock, "fence"));
        if (!token) return std::nullopt;
        return lock_record{.key = text_of(lock, "key"),
                           .id = lock_id::parse(text_of(lock, "lockId")),
                           .expires_at = time_of(lock, "expiresAtMs"),
                           .acquired_at = time_of(lock, "acquiredAtMs"),
                           .fence = *token};
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

struct decoder {
    const resp::value& reply;
    unix_time server_time;
    const std::string& server_name;

    [[noreturn]] void refuse() const {
        throw lock_error(error_code::internal,
                         server_name + " gave an answer that the lock script does not give");
    }
    [[nodiscard]] std::int64_t code() const {
        if (reply.type() != resp::kind::integer) refuse();
        return reply.integer();
    }
    [[nodiscard]] outcome not_owned() const {
        switch (code()) {
            case 0:
            case -1:
                return outcome::failed(failure_reason::not_found);
            case -2:
                return outcome::failed(failure_reason::expired);
            default:
                refuse();
        }
    }
    [[nodiscard]] outcome lookup() const {
        if (reply.is_null()) return outcome::nothing_found();
        if (reply.type() != resp::kind::bulk_string) refuse();
        auto record = read_record(reply.text());
        if (!record) {
            throw lock_error(error_code::invalid_argument,
                             "the lock that is stored in " + server_name +
                                 " lacks something or was written by another version");
        }
        return outcome::found(*std::move(record));
    }

    /// By the server's clock, which may have any value: refuses a sum that overflows.
    [[nodiscard]] unix_time end_of(milliseconds time) const {
        if (server_time > unix_time::max() - time) refuse();
        return server_time + time;
    }

    outcome operator()(const acquire_request& req) const {
        const auto counter = code();
        if (counter == std::numeric_limits<std::int64_t>::min()) refuse();
        if (counter <= 0) {
            const milliseconds lasts(-counter);
            (void)end_of(lasts);
            return outcome::locked(lasts);
        }
        if (counter > std::int64_t{fence::max_counter}) refuse();
        const auto token = fence::from_counter(static_cast<std::uint64_t>(counter));
        return outcome::granted(end_of(req.ttl), token);
    }
    outcome operator()(const release_request& /*req*/) const {
        return code() == 1 ? outcome::done() : not_owned();
    }
    outcome operator()(const extend_request& req) const {
        return code() == 1 ? outcome::extended(end_of(req.ttl)) : not_owned();
    }
    outcome operator()(const is_locked_request& /*req*/) const {
        if (code() != 0 && code() != 1) refuse();
        return outcome::boolean(code() == 1);
    }
    outcome operator()(const key_lookup_request& /*req*/) const { return lookup(); }
    outcome operator()(const id_lookup_request& /*req*/) const { return lookup(); }
};

}  // namespace

script_args encode(const request& req, const key_space& keys, bool cleanup) {
    return std::visit(encoder{keys, cleanup}, req);
}

outcome decode(const request& req, const script_reply& reply, const std::string& server_name) {
    if (reply.value.is_error()) throw to_lock_error(reply.value.text(), server_name);
    return std::visit(decoder{reply.value, reply.server_time, server_name}, req);
}

}  // namespace syncguard::redis
