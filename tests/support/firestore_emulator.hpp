/// Google's own Firestore emulator, for tests and benchmarks.
#pragma once

#include "support/http_client.hpp"
#include "support/loopback.hpp"
#include "support/server_process.hpp"
#include "support/temporary_folder.hpp"

#include <boost/json/value.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace syncguard::test {

/// One emulator, started and stopped by its owner.
class firestore_emulator {
  public:
    /// Whether it can be started here: Google's package and Java are installed.
    [[nodiscard]] static bool is_installed();

    firestore_emulator();

    [[nodiscard]] std::uint16_t port() const { return port_.number(); }

  private:
    void warm_up() const;

    temporary_folder folder_;
    reserved_port port_;
    std::optional<server_process> process_;
};

/// The message of skipped tests.
inline constexpr const char* no_emulator =
    "the Firestore emulator is not installed (google-cloud-cli-firestore-emulator, from Google's "
    "package source, and java): its tests are skipped";

/// The port of the emulator that all tests of a run of ctest share; outside of ctest, that of an
/// emulator for this program. Empty if the emulator is not installed.
[[nodiscard]] std::optional<std::uint16_t> shared_firestore_emulator();

/// A project of its own for each test: it has no documents of other tests.
class firestore_project {
  public:
    /// On the shared emulator, which must be running.
    firestore_project();
    explicit firestore_project(std::uint16_t port);

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] std::string emulator_host() const;
    [[nodiscard]] std::string url() const;

    /// The fields of a document in the form of the REST interface; empty if it does not exist.
    [[nodiscard]] std::optional<boost::json::value> fields(const std::string& collection,
                                                           const std::string& id) const;
    /// `fields` is JSON in the form of the REST interface. Replaces the whole document.
    void put(const std::string& collection, const std::string& id, const std::string& fields) const;
    void remove(const std::string& collection, const std::string& id) const;
    /// All documents of a collection: their fields by their ids.
    [[nodiscard]] std::map<std::string, boost::json::value> all(
        const std::string& collection) const;

    /// Sends any other request. `method` is one of the documents' root, such as "commit".
    [[nodiscard]] http_client::answer call(const std::string& method,
                                           const std::string& body) const;
    [[nodiscard]] std::string document_name(const std::string& collection,
                                            const std::string& id) const;

  private:
    std::uint16_t port_;
    std::string name_;
};

}  // namespace syncguard::test
