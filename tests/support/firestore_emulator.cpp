#include "support/firestore_emulator.hpp"

#include <boost/json.hpp>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

namespace syncguard::test {

namespace json = boost::json;

namespace {

/// The program of this name on the PATH, with symbolic links resolved; empty if there is none.
std::filesystem::path find_program(const std::string& name) {
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        const auto candidate = std::filesystem::path(folder) / name;
        std::error_code absent;
        if (::access(candidate.c_str(), X_OK) != 0) continue;
        return std::filesystem::canonical(candidate, absent);
    }
    return {};
}

/// The emulator's archive, to start it directly: gcloud would take seconds longer.
std::filesystem::path find_archive() {
    const auto gcloud = find_program("gcloud");
    if (gcloud.empty()) return {};
    const auto archive = gcloud.parent_path().parent_path() / "platform" /
                         "cloud-firestore-emulator" / "cloud-firestore-emulator.jar";
    std::error_code absent;
    return std::filesystem::exists(archive, absent) ? archive : std::filesystem::path();
}

bool is_ready(std::uint16_t port) {
    try {
        return http_client(port).send("GET", "/").status == 200;
    } catch (const std::exception&) {
        // It does not listen yet.
        return false;
    }
}

}  // namespace

bool firestore_emulator::is_installed() {
    return !find_archive().empty() && !find_program("java").empty();
}

firestore_emulator::firestore_emulator() {
    process_.emplace(
        std::vector<std::string>{"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                                 "-Duser.language=en", "-cp", find_archive(),
                                 "com.google.cloud.datastore.emulator.firestore.CloudFirestore",
                                 "start", "--host=127.0.0.1", "--port=" + std::to_string(port())},
        folder_ / "log", [&] { return is_ready(port()); });
    warm_up();
}

/// The first requests take seconds, longer than tests wait.
void firestore_emulator::warm_up() const {
    const firestore_project project(port());
    for (int i = 0; i < 20; ++i) {
        const std::string id = "warm-up-" + std::to_string(i);
        project.put("locks", id, R"({"lockId":{"stringValue":"x"}})");
        (void)project.all("locks");
        project.remove("locks", id);
    }
}

std::optional<std::uint16_t> shared_firestore_emulator() {
    static const std::optional<std::uint16_t> port = []() -> std::optional<std::uint16_t> {
        if (!firestore_emulator::is_installed()) return std::nullopt;
        std::uint16_t shared = 0;
        std::ifstream(SYNCGUARD_FIRESTORE_PORT_FILE) >> shared;
        if (shared != 0 && is_ready(shared)) return shared;
        // Not destroyed: the emulator ends with the process.
        static const auto* const own = new firestore_emulator;
        return own->port();
    }();
    return port;
}

firestore_project::firestore_project() : firestore_project(shared_firestore_emulator().value()) {}

firestore_project::firestore_project(std::uint16_t port) : port_(port) {
    std::random_device random;
    name_ = "demo-" + std::to_string(random()) + "-" + std::to_string(random());
}

std::string firestore_project::emulator_host() const {
    return "127.0.0.1:" + std::to_string(port_);
}

std::string firestore_project::url() const {
    return "firestore://" + name_ + "?emulator_host=" + emulator_host();
}

std::string firestore_project::document_name(const std::string& collection,
                                             const std::string& id) const {
    return "projects/" + name_ + "/databases/(default)/documents/" + collection + "/" + id;
}

http_client::answer firestore_project::call(const std::string& method,
                                            const std::string& body) const {
    return http_client(port_).send(
        "POST", "/v1/projects/" + name_ + "/databases/(default)/documents:" + method, body);
}

std::optional<json::value> firestore_project::fields(const std::string& collection,
                                                     const std::string& id) const {
    const json::object body{
        {"documents", json::array{json::string(document_name(collection, id))}}};
    const auto answer = json::parse(call("batchGet", json::serialize(body)).body);
    const auto* const found = answer.at(0).as_object().if_contains("found");
    if (found == nullptr) return std::nullopt;
    return found->at("fields");
}

void firestore_project::put(const std::string& collection, const std::string& id,
                            const std::string& fields) const {
    const json::object document{{"name", document_name(collection, id)},
                                {"fields", json::parse(fields)}};
    const json::object body{{"writes", json::array{json::object{{"update", document}}}}};
    const auto answer = call("commit", json::serialize(body));
    if (answer.status != 200) throw std::runtime_error(answer.body);
}

void firestore_project::remove(const std::string& collection, const std::string& id) const {
    const json::object body{
        {"writes", json::array{json::object{{"delete", document_name(collection, id)}}}}};
    const auto answer = call("commit", json::serialize(body));
    if (answer.status != 200) throw std::runtime_error(answer.body);
}

std::map<std::string, json::value> firestore_project::all(const std::string& collection) const {
    const json::object query{{"from", json::array{json::object{{"collectionId", collection}}}}};
    const auto answer = json::parse(
        call("runQuery", json::serialize(json::object{{"structuredQuery", query}})).body);
    std::map<std::string, json::value> documents;
    for (const auto& each : answer.as_array()) {
        const auto* const document = each.as_object().if_contains("document");
        if (document == nullptr) continue;
        const std::string name(document->at("name").as_string());
        documents[name.substr(document_name(collection, "").size())] = document->at("fields");
    }
    return documents;
}

}  // namespace syncguard::test
