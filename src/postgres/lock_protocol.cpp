#include "lock_protocol.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <algorithm>
#include <charconv>

namespace syncguard::postgres {

namespace {

constexpr storage_key_budget budget{.limit_bytes = 1700, .reserve_bytes = 0};

std::string storage_key(std::string_view key) {
    if (key.find('\0') != std::string_view::npos) {
        throw lock_error(error_code::invalid_argument,
                         "PostgreSQL cannot store a key with a NUL byte");
    }
    return make_storage_key("", key, budget);
}

step enter(const statements& sql, const std::string& key, milliseconds patience) {
    // Zero would mean: for ever.
    constexpr milliseconds least{1};
    constexpr milliseconds most{std::chrono::hours(24)};
    return {&sql.enter, {key, std::to_string(std::clamp(patience, least, most).count())}};
}

struct encoder {
    const statements& sql;
    bool cleanup;
    milliseconds patience;

    transaction operator()(const acquire_request& what) const {
        const std::string key = storage_key(what.key);
        return {enter(sql, key, patience),
                {&sql.acquire,
                 {key, std::string(what.key), what.id.to_string(), std::to_string(what.ttl.count()),
                  make_fence_key("", key, budget)}}};
    }
    transaction operator()(const release_request& what) const {
        return {{&sql.release, {what.id.to_string()}}};
    }
    transaction operator()(const extend_request& what) const {
        return {{&sql.extend, {what.id.to_string(), std::to_string(what.ttl.count())}}};
    }
    transaction operator()(const is_locked_request& what) const {
        return {{cleanup ? &sql.is_locked_with_cleanup : &sql.is_locked, {storage_key(what.key)}}};
    }
    transaction operator()(const key_lookup_request& what) const {
        return {{&sql.lookup_key, {storage_key(what.key)}}};
    }
    transaction operator()(const id_lookup_request& what) const {
        return {{&sql.lookup_id, {what.id.to_string()}}};
    }
};

struct decoder {
    const row& answer;
    const std::string& where;

    [[noreturn]] void refuse() const {
        throw lock_error(error_code::internal,
                         where + " gave an answer that does not fit the question");
    }
    [[nodiscard]] const std::optional<std::string>& field(std::size_t number) const {
        if (number >= answer.size()) refuse();
        return answer[number];
    }
    [[nodiscard]] const std::string& text(std::size_t number) const {
        if (!field(number)) refuse();
        return *field(number);
    }
    [[nodiscard]] std::int64_t integer(std::size_t number) const {
        const std::string& digits = text(number);
        std::int64_t value = 0;
        const auto [end, problem] =
            std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (problem != std::errc{} || end != digits.data() + digits.size()) refuse();
        return value;
    }
    [[nodiscard]] unix_time time(std::size_t number) const {
        return unix_time(milliseconds(integer(number)));
    }
    /// Of a release or an extension; it saw so many rows.
    [[nodiscard]] outcome not_owned(std::int64_t seen) const {
        return outcome::failed(seen == 0 ? failure_reason::not_found : failure_reason::expired);
    }
    [[nodiscard]] outcome lookup() const {
        if (answer.empty()) return outcome::nothing_found();
        const auto token = fence::parse(text(4));
        if (!token || !lock_id::is_valid(text(1))) {
            throw lock_error(error_code::invalid_argument,
                             "the lock that is stored in " + where +
                                 " lacks something or was written by another version");
        }
        return outcome::found({.key = text(0),
                               .id = lock_id::parse(text(1)),
                               .expires_at = time(2),
                               .acquired_at = time(3),
                               .fence = *token});
    }

    outcome operator()(const acquire_request& /*what*/) const {
        if (field(0)) return outcome::locked(milliseconds(integer(0)));
        if (!field(1)) {
            throw lock_error(error_code::internal,
                             "the fence counter of this key has reached its end (" +
                                 fence::from_counter(fence::max_counter).to_string() +
                                 "); nothing was locked. Use a new key");
        }
        const auto counter = integer(1);
        if (counter < 1 || counter > std::int64_t{fence::max_counter}) refuse();
        return outcome::granted(time(2), fence::from_counter(static_cast<std::uint64_t>(counter)));
    }
    outcome operator()(const release_request& /*what*/) const {
        return integer(0) > 0 ? outcome::done() : not_owned(integer(1));
    }
    outcome operator()(const extend_request& /*what*/) const {
        return field(0) ? outcome::extended(time(0)) : not_owned(integer(1));
    }
    outcome operator()(const is_locked_request& /*what*/) const {
        return outcome::yes_or_no(!answer.empty());
    }
    outcome operator()(const key_lookup_request& /*what*/) const { return lookup(); }
    outcome operator()(const id_lookup_request& /*what*/) const { return lookup(); }
};

}  // namespace

transaction encode(const request& what, const statements& sql, bool cleanup,
                   milliseconds patience) {
    return std::visit(encoder{sql, cleanup, patience}, what);
}

outcome decode(const request& what, const row& answer, const std::string& where) {
    return std::visit(decoder{answer, where}, what);
}

transaction encode_resolution(const acquire_request& what, const statements& sql,
                              milliseconds patience) {
    return {enter(sql, storage_key(what.key), patience), {&sql.lookup_id, {what.id.to_string()}}};
}

transaction encode_undoing(const lock_id& id, const std::string& key, const statements& sql,
                           milliseconds patience) {
    return {enter(sql, storage_key(key), patience), {&sql.release, {id.to_string()}}};
}

}  // namespace syncguard::postgres
