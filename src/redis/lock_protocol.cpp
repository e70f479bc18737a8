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

/// Puts the input of one operation together: all keys, then its arguments.
class input_builder {
  public:
    explicit input_builder(const script_kind& kind, bool acquires = false)
        : input_{.kind = kind, .acquires = acquires} {
        input_.bytes.reserve(usual_size);
    }

    using parts = std::initializer_list<std::string_view>;

    input_builder& key(parts text) {
        resp::append_bulk(input_.bytes, text);
        input_.ends_of_keys[input_.key_count++] = input_.bytes.size();
        return *this;
    }
    input_builder& argument(parts text) {
        resp::append_bulk(input_.bytes, text);
        ++input_.argument_count;
        return *this;
    }
    [[nodiscard]] script_input take() { return std::move(input_); }

  private:
    static constexpr std::size_t usual_size = 192;

    script_input input_;
};

/// Whether a text is, between quotes, the same in JSON.
bool is_plain(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\';
    });
}

struct encoder {
    const key_space& keys;
    bool cleanup;

    script_input operator()(const acquire_request& what) const {
        const std::string_view id = what.id.str();
        if (keys.has_plain_names(what.key) && is_plain(what.key)) {
            return input_builder({.action = script_action::acquire_plain, .ttl = what.ttl}, true)
                .key({keys.lock_prefix(), what.key})
                .key({keys.index_prefix(), id})
                .key({keys.fence_prefix(), what.key})
                .take();
        }
        const std::string lock_key = keys.lock_key(what.key);
        const std::string quoted = json::serialize(json::string_view(what.key));
        return input_builder({.action = script_action::acquire, .ttl = what.ttl}, true)
            .key({lock_key})
            .key({keys.index_prefix(), id})
            .key({keys.fence_key(lock_key)})
            .argument({std::string_view(quoted).substr(1, quoted.size() - 2)})
            .take();
    }
    script_input operator()(const release_request& what) const {
        return owned(what, {.action = what.key.empty() ? script_action::release
                                                       : script_action::release_known});
    }
    script_input operator()(const extend_request& what) const {
        return owned(
            what, {.action = what.key.empty() ? script_action::extend : script_action::extend_known,
                   .ttl = what.ttl});
    }
    script_input operator()(const is_locked_request& what) const {
        const std::string_view prefix = keys.index_prefix();
        return input_builder(
                   {.action = script_action::is_locked, .index_prefix = cleanup ? prefix : ""})
            .key({keys.lock_key(what.key)})
            .take();
    }
    script_input operator()(const key_lookup_request& what) const {
        return input_builder({.action = script_action::lookup_key})
            .key({keys.lock_key(what.key)})
            .take();
    }
    script_input operator()(const id_lookup_request& what) const {
        return input_builder({.action = script_action::lookup_id})
            .key({keys.index_prefix(), what.id.str()})
            .take();
    }

    /// What is done to a lock by its id: with its key where that is known.
    template <class Request>
    script_input owned(const Request& what, const script_kind& kind) const {
        input_builder input(kind);
        if (what.key.empty()) {
            // The index leads there.
        } else if (keys.has_plain_names(what.key)) {
            input.key({keys.lock_prefix(), what.key});
        } else {
            input.key({keys.lock_key(what.key)});
        }
        return input.key({keys.index_prefix(), what.id.str()}).take();
    }
};

unix_time at(std::int64_t ms) {
    return unix_time(milliseconds(ms));
}

std::string text_of(const json::object& lock, std::string_view field) {
    const auto& value = lock.at(field).as_string();
    return {value.data(), value.size()};
}

/// Other writers have no integers: a time may come as 1.7e12.
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
    const std::string& where;

    [[noreturn]] void refuse() const {
        throw lock_error(error_code::internal,
                         where + " gave an answer that the lock script does not give");
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
                             "the lock that is stored in " + where +
                                 " lacks something or was written by another version");
        }
        return outcome::found(*std::move(record));
    }

    /// By the server's clock, which may show any time: refuses a sum that overflows.
    [[nodiscard]] unix_time end_of(milliseconds time) const {
        if (server_time > unix_time::max() - time) refuse();
        return server_time + time;
    }

    outcome operator()(const acquire_request& what) const {
        const auto counter = code();
        if (counter == std::numeric_limits<std::int64_t>::min()) refuse();
        if (counter <= 0) {
            const milliseconds lasts(-counter);
            (void)end_of(lasts);
            return outcome::locked(lasts);
        }
        if (counter > std::int64_t{fence::max_counter}) refuse();
        const auto token = fence::from_counter(static_cast<std::uint64_t>(counter));
        return outcome::granted(end_of(what.ttl), token);
    }
    outcome operator()(const release_request& /*what*/) const {
        return code() == 1 ? outcome::done() : not_owned();
    }
    outcome operator()(const extend_request& what) const {
        return code() == 1 ? outcome::extended(end_of(what.ttl)) : not_owned();
    }
    outcome operator()(const is_locked_request& /*what*/) const {
        if (code() != 0 && code() != 1) refuse();
        return outcome::yes_or_no(code() == 1);
    }
    outcome operator()(const key_lookup_request& /*what*/) const { return lookup(); }
    outcome operator()(const id_lookup_request& /*what*/) const { return lookup(); }
};

}  // namespace

script_input encode(const request& what, const key_space& keys, bool cleanup) {
    return std::visit(encoder{keys, cleanup}, what);
}

outcome decode(const request& what, const script_reply& reply, const std::string& where) {
    if (reply.value.is_error()) throw to_lock_error(reply.value.text(), where);
    return std::visit(decoder{reply.value, reply.server_time, where}, what);
}

}  // namespace syncguard::redis
