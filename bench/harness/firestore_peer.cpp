#include "harness/firestore_peer.hpp"

#include <syncguard/fence.hpp>
#include <syncguard/lock_id.hpp>

#include <boost/json.hpp>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace syncguard::bench {

namespace json = boost::json;

namespace {

json::object text(std::string_view value) {
    return {{"stringValue", json::string_view(value.data(), value.size())}};
}

json::object number(std::int64_t value) {
    return {{"integerValue", std::to_string(value)}};
}

json::object update(const std::string& name, json::object fields) {
    return {{"update", {{"name", name}, {"fields", std::move(fields)}}}};
}

std::string commit_of(json::array writes, const std::string& transaction) {
    return json::serialize(
        json::object{{"writes", std::move(writes)}, {"transaction", transaction}});
}

}  // namespace

transaction_peer::transaction_peer(const test::firestore_project& project, std::string key)
    : project_(project),
      key_(std::move(key)),
      root_("/v1/projects/" + project.name() + "/databases/(default)/documents:"),
      connection_(project.port()) {}

void transaction_peer::pair() {
    const auto id = lock_id::generate().to_string();
    const auto lock_name = project_.document_name("locks", key_);
    const auto counter_name = project_.document_name("fence_counters", "fence:" + key_);
    {
        const auto transaction = begin();
        const json::object wanted{{"documents", json::array{lock_name, counter_name}},
                                  {"transaction", transaction}};
        const auto read = json::parse(call("batchGet", json::serialize(wanted)));
        std::uint64_t last = 0;
        for (const auto& each : read.as_array()) {
            const auto* const found = each.as_object().if_contains("found");
            if (found == nullptr) continue;
            if (found->at("name").as_string() == lock_name) throw std::runtime_error("locked");
            last = std::stoull(
                std::string(found->at("fields").at("fence").at("stringValue").as_string()));
        }
        const auto token = fence::from_counter(last + 1).to_string();
        const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
        json::array writes;
        writes.push_back(update(lock_name, {{"lockId", text(id)},
                                            {"expiresAtMs", number(now + 30'000)},
                                            {"acquiredAtMs", number(now)},
                                            {"key", text(key_)},
                                            {"fence", text(token)}}));
        writes.push_back(update(counter_name, {{"fence", text(token)}, {"keyDebug", text(key_)}}));
        call("commit", commit_of(std::move(writes), transaction));
    }
    const auto transaction = begin();
    const json::object filter{
        {"field", {{"fieldPath", "lockId"}}}, {"op", "EQUAL"}, {"value", text(id)}};
    const json::object query{{"from", json::array{json::object{{"collectionId", "locks"}}}},
                             {"where", {{"fieldFilter", filter}}},
                             {"limit", 2}};
    const auto found = json::parse(call(
        "runQuery",
        json::serialize(json::object{{"structuredQuery", query}, {"transaction", transaction}})));
    const auto name = found.at(0).at("document").at("name");
    json::array writes;
    writes.push_back(json::object{{"delete", name}});
    call("commit", commit_of(std::move(writes), transaction));
}

std::string transaction_peer::begin() {
    const auto answer = json::parse(call("beginTransaction", R"({"options":{"readWrite":{}}})"));
    return std::string(answer.at("transaction").as_string());
}

std::string transaction_peer::call(const std::string& method, const std::string& body) {
    const auto answer = connection_.send("POST", root_ + method, body);
    if (answer.status != 200) throw std::runtime_error(method + ": " + answer.body);
    return answer.body;
}

}  // namespace syncguard::bench
