#include "firestore/documents.hpp"

#include "firestore/server_error.hpp"

#include <syncguard/error.hpp>

#include <boost/json.hpp>

#include <charconv>
#include <cmath>
#include <stdexcept>

namespace syncguard::firestore {

namespace json = boost::json;

namespace {

/// More than one result is an error; a few more make the warning more useful.
constexpr int max_search_results = 10;

[[noreturn]] void refuse_document(const char* kind) {
    throw lock_error(error_code::invalid_argument,
                     std::string("a Firestore document under the name of a ") + kind +
                         " lacks something, or was not written by SyncGuard; it was left alone");
}

[[noreturn]] void refuse_answer() {
    throw lock_error(error_code::internal,
                     "Firestore gave an answer that does not fit the question");
}

// Values.

json::object text(std::string_view value) {
    return {{"stringValue", json::string_view(value.data(), value.size())}};
}

json::object number(std::int64_t value) {
    // In JSON, Firestore's 64-bit integers are strings.
    return {{"integerValue", std::to_string(value)}};
}

std::int64_t in_ms(unix_time time) {
    return time.time_since_epoch().count();
}

std::string string_of(const json::value& value) {
    const auto& found = value.as_string();
    return {found.data(), found.size()};
}

std::string read_text(const json::object& fields, const char* name) {
    const auto& value = fields.at(name).as_object().at("stringValue").as_string();
    return {value.data(), value.size()};
}

std::int64_t parse_integer(std::string_view digits) {
    std::int64_t value = 0;
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (problem != std::errc{} || end != digits.data() + digits.size()) {
        throw std::invalid_argument("not a number");
    }
    return value;
}

/// Peers write times as integers or as doubles.
unix_time read_time(const json::object& fields, const char* name) {
    // The largest integer up to which a double represents every integer. Real times are far below
    // it, and sums with it do not overflow.
    constexpr std::int64_t most = 9'007'199'254'740'992;
    const auto& value = fields.at(name).as_object();
    std::int64_t ms = 0;
    if (const auto* whole = value.if_contains("integerValue")) {
        ms = whole->is_string() ? parse_integer(string_of(*whole))
                                : whole->to_number<std::int64_t>();
    } else {
        const auto fraction = value.at("doubleValue").to_number<double>();
        if (!(std::abs(fraction) <= static_cast<double>(most))) {
            throw std::out_of_range("not a time");
        }
        ms = std::llround(fraction);
    }
    if (ms < -most || ms > most) throw std::out_of_range("not a time");
    return unix_time(milliseconds(ms));
}

// Documents.

stored_lock read_lock(const json::object& document) {
    try {
        const auto& fields = document.at("fields").as_object();
        const auto token = fence::parse(read_text(fields, "fence"));
        if (!token) refuse_document("lock");
        lock_record record{.key = read_text(fields, "key"),
                           .id = lock_id::parse(read_text(fields, "lockId")),
                           .expires_at = read_time(fields, "expiresAtMs"),
                           .acquired_at = read_time(fields, "acquiredAtMs"),
                           .fence = *token};
        return {.name = string_of(document.at("name")),
                .record = std::move(record),
                .version = string_of(document.at("updateTime"))};
    } catch (const std::exception&) {
        refuse_document("lock");
    }
}

stored_counter read_counter(const json::object& document) {
    try {
        const std::string digits = read_text(document.at("fields").as_object(), "fence");
        const std::int64_t value = parse_integer(digits);
        if (value < 0) refuse_document("fence counter");
        return {.value = static_cast<std::uint64_t>(value),
                .version = string_of(document.at("updateTime"))};
    } catch (const std::exception&) {
        refuse_document("fence counter");
    }
}

template <class Stored>
json::object unchanged(const std::optional<Stored>& read) {
    if (!read) return {{"exists", false}};
    return {{"updateTime", read->version}};
}

std::vector<std::string> names_to_read(const document_names::pair& names, bool with_counter) {
    std::vector<std::string> wanted{names.lock};
    if (with_counter) wanted.push_back(names.counter);
    if (!names.former_lock.empty()) {
        wanted.push_back(names.former_lock);
        if (with_counter) wanted.push_back(names.former_counter);
    }
    return wanted;
}

json::value parse(std::string_view body) {
    json::error_code problem;
    auto parsed = json::parse(json::string_view(body.data(), body.size()), problem);
    if (problem) refuse_answer();
    return parsed;
}

/// The service's status in an error; empty if there is none.
std::string status_in(const json::value& error) {
    const auto* const details = error.if_object();
    const auto* const status = details == nullptr ? nullptr : details->if_contains("status");
    return status == nullptr || !status->is_string() ? std::string() : string_of(*status);
}

const json::array& entries_of(const json::value& answer) {
    const auto* const entries = answer.if_array();
    if (entries == nullptr) refuse_answer();
    return *entries;
}

/// An entry of an answer that is a list. An error may follow entries without one.
const json::object& checked_entry(const json::value& entry) {
    const auto* const object = entry.if_object();
    if (object == nullptr) refuse_answer();
    const auto* const error = object->if_contains("error");
    if (error == nullptr) return *object;
    const auto* const details = error->if_object();
    const auto* const code = details == nullptr ? nullptr : details->if_contains("code");
    json::error_code no_number;
    const auto status = code == nullptr ? 0U : code->to_number<unsigned>(no_number);
    if (status == 0 || no_number) refuse_answer();
    throw to_lock_error(status, status_in(*error), "Firestore");
}

commit_request in_writes(json::array writes) {
    const auto count = writes.size();
    return {.body = json::serialize(json::object{{"writes", std::move(writes)}}), .writes = count};
}

json::object removal_of(std::string_view name, std::string_view as_read) {
    json::object precondition{{"updateTime", json::string_view(as_read.data(), as_read.size())}};
    return {{"delete", json::string_view(name.data(), name.size())},
            {"currentDocument", std::move(precondition)}};
}

json::object update_of_counter(const document_names::pair& names,
                               const std::optional<stored_counter>& read, std::string_view key,
                               const fence& last) {
    json::object fields{{"fence", text(last.str())}, {"keyDebug", text(key)}};
    return {{"update", {{"name", names.counter}, {"fields", std::move(fields)}}},
            {"currentDocument", unchanged(read)}};
}

}  // namespace

std::string encode_read(const document_names::pair& names, bool with_counter) {
    json::array wanted;
    for (const auto& name : names_to_read(names, with_counter))
        wanted.emplace_back(json::string(name));
    return json::serialize(json::object{{"documents", std::move(wanted)}});
}

std::string encode_search(std::string_view collection, const lock_id& id) {
    json::object filter{
        {"field", {{"fieldPath", "lockId"}}}, {"op", "EQUAL"}, {"value", text(id.str())}};
    json::object query{
        {"from", json::array{json::object{
                     {"collectionId", json::string_view(collection.data(), collection.size())}}}},
        {"where", {{"fieldFilter", std::move(filter)}}},
        {"limit", max_search_results}};
    return json::serialize(json::object{{"structuredQuery", std::move(query)}});
}

commit_request encode_grant(const document_names::pair& names, const stored_pair& read,
                            const lock_record& granted) {
    json::object lock_fields{{"lockId", text(granted.id.str())},
                             {"expiresAtMs", number(in_ms(granted.expires_at))},
                             {"acquiredAtMs", number(in_ms(granted.acquired_at))},
                             {"key", text(granted.key)},
                             {"fence", text(granted.fence.str())}};
    json::object lock_write{{"update", {{"name", names.lock}, {"fields", std::move(lock_fields)}}},
                            {"currentDocument", unchanged(read.lock)}};
    json::array writes;
    writes.push_back(std::move(lock_write));
    writes.push_back(update_of_counter(names, read.counter, granted.key, granted.fence));
    // Then an extension of it that is still in flight fails.
    if (read.former_lock) {
        writes.push_back(removal_of(read.former_lock->name, read.former_lock->version));
    }
    return in_writes(std::move(writes));
}

commit_request encode_counter(const document_names::pair& names,
                              const std::optional<stored_counter>& read, std::string_view key,
                              const fence& last) {
    json::array writes;
    writes.push_back(update_of_counter(names, read, key, last));
    return in_writes(std::move(writes));
}

commit_request encode_extension(std::string_view name, std::string_view as_read,
                                unix_time expires_at) {
    json::object document{{"name", json::string_view(name.data(), name.size())},
                          {"fields", json::object{{"expiresAtMs", number(in_ms(expires_at))}}}};
    json::object precondition{{"updateTime", json::string_view(as_read.data(), as_read.size())}};
    json::object write{{"update", std::move(document)},
                       {"updateMask", {{"fieldPaths", json::array{"expiresAtMs"}}}},
                       {"currentDocument", std::move(precondition)}};
    json::array writes;
    writes.push_back(std::move(write));
    return in_writes(std::move(writes));
}

commit_request encode_removal(std::string_view name, std::string_view as_read) {
    json::array writes;
    writes.push_back(removal_of(name, as_read));
    return in_writes(std::move(writes));
}

stored_pair decode_read(std::string_view body, const document_names::pair& names,
                        bool with_counter) {
    const json::value answer = parse(body);
    stored_pair read;
    auto unanswered = names_to_read(names, with_counter);
    for (const auto& each : entries_of(answer)) {
        const auto& entry = checked_entry(each);
        const auto* const found = entry.if_contains("found");
        const auto* const document = found == nullptr ? nullptr : found->if_object();
        if (found != nullptr && document == nullptr) refuse_answer();
        const auto* const name =
            document == nullptr ? entry.if_contains("missing") : document->if_contains("name");
        // An entry may contain only the time.
        if (name == nullptr && document == nullptr) continue;
        if (name == nullptr || !name->is_string()) refuse_answer();
        const std::string document_name = string_of(*name);
        if (std::erase(unanswered, document_name) == 0) refuse_answer();
        if (document == nullptr) continue;
        if (document_name == names.lock) {
            read.lock = read_lock(*document);
        } else if (document_name == names.counter) {
            read.counter = read_counter(*document);
        } else if (document_name == names.former_lock) {
            read.former_lock = read_lock(*document);
        } else {
            read.former_counter = read_counter(*document);
        }
    }
    // The service reports missing documents explicitly; an answer that omits a document is invalid.
    if (!unanswered.empty()) refuse_answer();
    return read;
}

std::vector<stored_lock> decode_search(std::string_view body) {
    const json::value answer = parse(body);
    bool has_answer = false;
    std::vector<stored_lock> found;
    for (const auto& each : entries_of(answer)) {
        const auto& entry = checked_entry(each);
        const auto* const document = entry.if_contains("document");
        // If nothing is found, the answer contains the read time.
        has_answer = has_answer || document != nullptr || entry.contains("readTime");
        if (document == nullptr) continue;
        if (!document->is_object()) refuse_answer();
        found.push_back(read_lock(document->get_object()));
    }
    if (!has_answer) refuse_answer();
    return found;
}

std::vector<version> decode_commit(std::string_view body, std::size_t writes) {
    const json::value answer = parse(body);
    std::vector<version> versions;
    try {
        for (const auto& each : answer.as_object().at("writeResults").as_array()) {
            const auto* const written = each.as_object().if_contains("updateTime");
            versions.push_back(written == nullptr ? version() : string_of(*written));
        }
    } catch (const std::exception&) {
        refuse_answer();
    }
    if (versions.size() != writes) refuse_answer();
    return versions;
}

std::string decode_error_status(std::string_view body) {
    json::error_code problem;
    const auto parsed = json::parse(json::string_view(body.data(), body.size()), problem);
    if (problem) return {};
    // If the answer is a list, its error is an element of the list.
    const json::value* answer = &parsed;
    if (const auto* list = answer->if_array(); list != nullptr && !list->empty()) {
        answer = &list->front();
    }
    const auto* const object = answer->if_object();
    const auto* const error = object == nullptr ? nullptr : object->if_contains("error");
    return error == nullptr ? std::string() : status_in(*error);
}

}  // namespace syncguard::firestore
