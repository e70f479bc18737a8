/// Connects an engine to the contract suite. A new engine adds a fixture to `all_engines()`.
#pragma once

#include <syncguard/backend.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace syncguard::test {

/// An engine with a store of its own for each test.
class engine_fixture {
  public:
    engine_fixture() = default;
    engine_fixture(const engine_fixture&) = delete;
    engine_fixture& operator=(const engine_fixture&) = delete;
    virtual ~engine_fixture() = default;

    /// A handle on this store. Each call returns another handle on the same locks.
    [[nodiscard]] virtual any_backend open(backend_options options = {}) = 0;

    /// The store's time; `advance` moves it.
    [[nodiscard]] virtual unix_time now() const = 0;
    virtual void advance(milliseconds step) = 0;

    /// How long after its expiry a lock still excludes others: it is live until `expires_at +
    /// grace() - 1ms` and free at `expires_at + grace()`.
    [[nodiscard]] virtual milliseconds grace() const { return time_tolerance; }

    /// The reason that telemetry reports for a mutation after the expiry of its lock.
    [[nodiscard]] virtual failure_reason reason_after_expiry() const {
        return failure_reason::expired;
    }

    /// Whether the engine accepts keys with a NUL byte. Other engines refuse such keys.
    [[nodiscard]] virtual bool stores_nul() const { return true; }

    /// Sets a fence counter, as if after years of use. To be called before the key's first use.
    virtual void set_fence_counter(const std::string& key, std::uint64_t counter) = 0;

    /// Deletes the fence counter of a key, and keeps its lock stored after the lock's expiry.
    /// Returns false if the store cannot lose a counter without the lock.
    [[nodiscard]] virtual bool delete_fence_counter(const std::string& /*key*/) { return false; }

    /// A URL for other processes that share the store. From this call on the store's clock runs
    /// with the host's. Only for kinds that are shared.
    [[nodiscard]] virtual std::string url() = 0;
};

struct engine_kind {
    std::string name;
    bool shared_between_processes;
    std::function<std::unique_ptr<engine_fixture>()> make;
    /// Whether waiting callers are notified when a lock becomes free.
    bool supports_waiting = true;

    friend std::ostream& operator<<(std::ostream& out, const engine_kind& kind) {
        return out << kind.name;
    }
};

/// Each is defined only if its engine is built.
[[nodiscard]] std::unique_ptr<engine_fixture> make_firestore_fixture();
/// Whether there is an emulator for it.
[[nodiscard]] bool firestore_can_be_tested();
[[nodiscard]] std::unique_ptr<engine_fixture> make_postgres_fixture();
[[nodiscard]] std::unique_ptr<engine_fixture> make_redis_fixture();
[[nodiscard]] std::unique_ptr<engine_fixture> make_sqlite_fixture();

[[nodiscard]] std::vector<engine_kind> all_engines();

/// The engines whose store several processes can share.
[[nodiscard]] std::vector<engine_kind> shared_engines();

}  // namespace syncguard::test
