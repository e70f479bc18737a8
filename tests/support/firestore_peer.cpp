#include "support/firestore_peer.hpp"

#include <syncguard/lock_id.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace syncguard::test {

namespace json = boost::json;

namespace {

std::string checked_path(const std::string& path) {
    auto accepted = peer_document_path(path);
    if (!accepted) throw std::invalid_argument("not the path of a document");
    return *accepted;
}

json::object text(const std::string& value) {
    return {{"stringValue", value}};
}

json::object number(unix_time time) {
    return {{"integerValue", std::to_string(time.time_since_epoch().count())}};
}

}  // namespace

std::optional<std::string> peer_document_path(const std::string& path) {
    if (path.find("//") != std::string::npos) return std::nullopt;
    std::vector<std::string> segments(1);
    for (const char c : path) {
        if (c == '/') {
            segments.emplace_back();
        } else {
            segments.back() += c;
        }
    }
    std::erase(segments, std::string());
    if (segments.size() % 2 == 0) return std::nullopt;
    std::string joined;
    for (const auto& each : segments) {
        const bool is_reserved = each.size() >= 4 && each.starts_with("__") && each.ends_with("__");
        if (each == "." || each == ".." || is_reserved) return std::nullopt;
        joined += (joined.empty() ? "" : "/") + each;
    }
    return joined;
}

std::optional<std::string> firestore_peer::acquire(const std::string& key, milliseconds ttl) const {
    const auto lock_name = project_.document_name("locks", checked_path(key));
    const auto counter_name =
        project_.document_name("fence_counters", checked_path("fence:" + key));
    const auto transaction =
        json::parse(project_.call("beginTransaction", "{}").body).at("transaction");
    const json::object wanted{{"documents", json::array{lock_name, counter_name}},
                              {"transaction", transaction}};
    const auto now = clock_();
    std::uint64_t last = 0;
    bool is_locked = false;
    const auto read = json::parse(project_.call("batchGet", json::serialize(wanted)).body);
    for (const auto& each : read.as_array()) {
        const auto* const found = each.as_object().if_contains("found");
        if (found == nullptr) continue;
        const auto& fields = found->at("fields");
        if (found->at("name").as_string() == lock_name) {
            const std::string expires(fields.at("expiresAtMs").at("integerValue").as_string());
            is_locked = std::stoll(expires) > now.time_since_epoch().count() - 1000;
        } else {
            last = std::stoull(std::string(fields.at("fence").at("stringValue").as_string()));
        }
    }
    json::array writes;
    std::string fence = std::to_string(last + 1);
    fence.insert(0, 15 - fence.size(), '0');
    if (!is_locked) {
        const json::object lock{{"lockId", text(lock_id::generate().to_string())},
                                {"expiresAtMs", number(now + ttl)},
                                {"acquiredAtMs", number(now)},
                                {"key", text(key)},
                                {"fence", text(fence)}};
        const json::object counter{{"fence", text(fence)}, {"keyDebug", text(key)}};
        writes.push_back(json::object{{"update", {{"name", lock_name}, {"fields", lock}}}});
        writes.push_back(json::object{{"update", {{"name", counter_name}, {"fields", counter}}}});
    }
    const json::object commit{{"writes", writes}, {"transaction", transaction}};
    if (project_.call("commit", json::serialize(commit)).status != 200) {
        throw std::runtime_error("the peer's transaction failed");
    }
    if (is_locked) return std::nullopt;
    return fence;
}

void firestore_peer::release(const std::string& key) const {
    project_.remove("locks", checked_path(key));
}

}  // namespace syncguard::test
