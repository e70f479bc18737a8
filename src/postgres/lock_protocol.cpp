#include "postgres/lock_protocol.hpp"

#include "util/bounded_wait.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <charconv>

namespace syncguard::postgres {

namespace {

constexpr storage_key_budget budget{.limit_bytes = 1700, .reserve_bytes = 0};

/// Limits the time for which a background release occupies a connection that callers wait for.
constexpr milliseconds background_lock_timeout{100};

std::string storage_key(std::string_view key) {
    if (key.find('\0') != std::string_view::npos) {
        throw lock_error(error_code::invalid_argument,
                         "PostgreSQL cannot store a key with a NUL byte");
    }
    return make_storage_key("", key, budget);
}

query release_of(const lock_id& id, const statements& sql) {
    return {.sql = &sql.release,
            .parameters = {id.to_string()},
            .is_batchable = true,
            .may_wait_for_rows = true,
            .fallback = &sql.release_without_notify};
}

query one(const statement& sql, std::vector<std::string> parameters) {
    return {.sql = &sql, .parameters = std::move(parameters)};
}

struct encoder {
    const statements& sql;
    bool cleanup;

    query operator()(const acquire_request& req) const {
        const std::string key = storage_key(req.key);
        return {.sql = &sql.acquire,
                .parameters = {key, std::string(req.key), req.id.to_string(),
                               std::to_string(req.ttl.count()), make_fence_key("", key, budget)},
                .is_batchable = true,
                .has_deadline = true,
                .may_wait_for_rows = true,
                .key_lock_sql = &sql.lock_key,
                .key_lock = key};
    }
    query operator()(const release_request& req) const { return release_of(req.id, sql); }
    query operator()(const extend_request& req) const {
        query asked = one(sql.extend, {req.id.to_string(), std::to_string(req.ttl.count())});
        asked.has_deadline = true;
        asked.may_wait_for_rows = true;
        asked.fallback = &sql.extend_without_notify;
        return asked;
    }
    query operator()(const is_locked_request& req) const {
        query asked = one(sql.is_locked, {storage_key(req.key)});
        if (cleanup) {
            // The answer is the same if the expired lock cannot be removed.
            asked.sql = &sql.is_locked_with_cleanup;
            asked.fallback = &sql.is_locked;
            asked.fallback_after = query::refusals::all;
        }
        return asked;
    }
    query operator()(const key_lookup_request& req) const {
        return one(sql.lookup_key, {storage_key(req.key)});
    }
    query operator()(const id_lookup_request& req) const {
        return one(sql.lookup_id, {req.id.to_string()});
    }
};

struct decoder {
    const row& answer;
    std::string_view server_name;

    [[noreturn]] void refuse() const {
        throw lock_error(
            error_code::internal,
            std::string(server_name) + " gave an answer that does not fit the question");
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
    [[nodiscard]] static outcome not_owned(bool is_there) {
        return outcome::failed(is_there ? failure_reason::expired : failure_reason::not_found);
    }
    [[nodiscard]] outcome lookup() const {
        if (answer.empty()) return outcome::nothing_found();
        const auto token = fence::parse(text(4));
        if (!token || !lock_id::is_valid(text(1))) {
            throw lock_error(error_code::invalid_argument,
                             "the lock that is stored in " + std::string(server_name) +
                                 " lacks something or was written by another version");
        }
        return outcome::found({.key = text(0),
                               .id = lock_id::parse(text(1)),
                               .expires_at = time(2),
                               .acquired_at = time(3),
                               .fence = *token});
    }

    outcome operator()(const acquire_request& /*req*/) const {
        if (field(1)) return outcome::locked(milliseconds(integer(1)));
        if (!field(3) && field(6) == "t") {
            throw lock_error(error_code::invalid_argument,
                             "the fence counter of this key is a negative number, which SyncGuard "
                             "does not write; nothing was locked");
        }
        if (!field(3)) {
            throw lock_error(error_code::internal,
                             "the fence counter of this key has reached its end (" +
                                 fence::from_counter(fence::max_counter).to_string() +
                                 "); nothing was locked. Use a new key");
        }
        const auto counter = integer(3);
        if (counter < 1 || counter > std::int64_t{fence::max_counter}) refuse();
        return outcome::granted(time(4), fence::from_counter(static_cast<std::uint64_t>(counter)));
    }
    outcome operator()(const release_request& /*req*/) const {
        const auto said = integer(0);
        return said == 1 ? outcome::done() : not_owned(said == -2);
    }
    outcome operator()(const extend_request& /*req*/) const {
        return field(1) ? outcome::extended(time(1)) : not_owned(integer(2) > 0);
    }
    outcome operator()(const is_locked_request& /*req*/) const {
        return outcome::boolean(!answer.empty());
    }
    outcome operator()(const key_lookup_request& /*req*/) const { return lookup(); }
    outcome operator()(const id_lookup_request& /*req*/) const { return lookup(); }
};

}  // namespace

query encode(const request& req, const statements& sql, bool cleanup) {
    return std::visit(encoder{sql, cleanup}, req);
}

bool is_locked(const row& answer) {
    return answer.size() > 1 && answer[1].has_value();
}

bool needs_key_lock(const request& req, const row& answer) {
    if (std::holds_alternative<acquire_request>(req)) {
        return answer.size() > 2 && !answer[1] && answer[2] == "f" &&
               !was_granted_before(req, answer);
    }
    return std::holds_alternative<extend_request>(req) && answer.size() > 3 && answer[3] == "f";
}

bool was_granted_before(const request& req, const row& answer) {
    return std::holds_alternative<acquire_request>(req) && answer.size() > 5 && !answer[1] &&
           answer[5] == "t";
}

std::optional<milliseconds> time_to_trust(const request& req, const row& answer) {
    if (!std::holds_alternative<extend_request>(req) || answer.size() <= 4 || !answer[4]) {
        return std::nullopt;
    }
    return bounded_wait(milliseconds(decoder{answer, {}}.integer(4)));
}

outcome decode(const request& req, const row& answer, const std::string& server_name) {
    return std::visit(decoder{answer, server_name}, req);
}

bool release_is_final(const row& answer, unix_time deadline) {
    const decoder read{answer, {}};
    return read.integer(0) == 1 || read.time(2) > deadline;
}

query encode_outcome_lookup(const acquire_request& req, const statements& sql) {
    query asked = one(sql.lookup_id, {req.id.to_string()});
    asked.key_lock_sql = &sql.lock_key;
    asked.key_lock = storage_key(req.key);
    asked.needs_key_lock = true;
    return asked;
}

query encode_background_release(const lock_id& id, const std::string& key, const statements& sql) {
    query asked = release_of(id, sql);
    asked.max_lock_timeout = background_lock_timeout;
    asked.key_lock_sql = &sql.lock_key;
    asked.key_lock = storage_key(key);
    asked.needs_key_lock = true;
    return asked;
}

}  // namespace syncguard::postgres
