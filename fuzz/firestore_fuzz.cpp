/// Any answer of a server and any credentials file is either parsed or refused with a lock_error
/// that repeats nothing of it, and parsed values cause no overflow.
#include "firestore/credentials.hpp"
#include "firestore/documents.hpp"
#include "firestore/lock_rules.hpp"
#include "firestore/server_error.hpp"
#include "http/message.hpp"

#include <syncguard/error.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace syncguard;
using namespace syncguard::firestore;

constexpr unix_time now{milliseconds{1'700'000'000'000}};

void require(bool holds, const char* property) {
    if (holds) return;
    std::fprintf(stderr, "firestore_fuzz: does not hold: %s\n", property);
    std::abort();
}

/// Any other exception than a `lock_error` ends the program.
template <class Action>
void allow_refusal(Action action) {
    try {
        action();
    } catch (const lock_error&) {
        // Refused as required.
    }
}

/// The names in the seeds.
const document_names::pair& names() {
    static const document_names::pair both = document_names({.project = "p"}).of("resource:123");
    return both;
}

void check_lock(const lock_record& lock) {
    constexpr milliseconds most{9'007'199'254'740'992};
    const auto expires = lock.expires_at.time_since_epoch();
    require(-most <= expires && expires <= most, "a time is one that a double can tell");
    require(time_until_free(lock, now) >= milliseconds{0}, "a lock ends in the future, or has");
    require(!may_be_cleaned_up(lock, now) || !is_live(lock.expires_at, now),
            "what is cleaned up has ended");
}

void check_read(std::string_view body, bool with_counter) {
    const auto read = decode_read(body, names(), with_counter);
    if (read.lock) check_lock(read.lock->record);
    const acquire_request wanted{.key = "resource:123",
                                 .id = lock_id::parse("AAAAAAAAAAAAAAAAAAAAAA"),
                                 .ttl = milliseconds{30'000}};
    const auto granted = grant_on(read, wanted, now);
    if (!granted) {
        require(read.lock.has_value(), "only a lock stands in the way");
        return;
    }
    const auto last = read.counter ? read.counter->value : 0;
    require(counter_of(granted->fence) > last, "fences grow");
    // The versions come from the server and are sent back to it.
    require(!encode_grant(names(), read, *granted).body.empty(), "a grant can be written");
}

void check_search(std::string_view body) {
    const auto found = decode_search(body);
    for (const auto& each : found)
        check_lock(each.record);
    if (found.empty()) return;
    const auto chosen = choose_owned(found, found.front().record.id, now);
    require(chosen.lock == nullptr || is_live(chosen.lock->record.expires_at, now),
            "who owns a lock owns a live one");
}

void check_error(std::string_view body) {
    const auto status = decode_error_status(body);
    for (const unsigned number : {400U, 409U, 500U, 600U}) {
        const std::string said = to_lock_error(number, status, "here").what();
        require(
            std::all_of(said.begin(), said.end(), [](char c) { return c >= ' ' && c < '\x7f'; }),
            "messages are plain text");
    }
}

void check_token(const std::string& body) {
    const auto token = decode_token({.status = 200, .body = body, .date = {}}, "here");
    require(!token.text.empty() && token.lifetime.count() > 0, "a token can be used");
    require(token.text.find_first_of(" \r\n") == std::string::npos, "a token fits into a header");
}

void check_url(std::string_view text) {
    (void)net::parse_http_date(text);
    (void)net::parse_host_and_port(text);
    const auto place = net::parse_http_url(text);
    if (!place) return;
    require(place->target.starts_with('/'), "a target begins with a slash");
    require(place->target.find_first_of(" \r\n\t") == std::string::npos,
            "a target does not end a request's line");
    const auto again = net::parse_host_and_port(place->origin.authority());
    require(again && again->host == place->origin.host && again->port == place->origin.port,
            "what is shown of an origin is the origin");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    allow_refusal([&] { check_read(text, true); });
    allow_refusal([&] { check_read(text, false); });
    allow_refusal([&] { check_search(text); });
    allow_refusal([&] { (void)decode_commit(text, 2); });
    allow_refusal([&] { check_token(text); });
    allow_refusal([&] { (void)decode_token({.status = 400, .body = text, .date = {}}, "here"); });
    allow_refusal([&] { (void)parse_credentials(text, "a file"); });
    check_error(text);
    check_url(text);
    return 0;
}
