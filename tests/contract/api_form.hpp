/// The ways into an operation: the contract holds through each of them.
#pragma once

#include <syncguard/backend.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::test {

using any_result = acquire_result<any_capabilities>;
using any_lease = lease<any_capabilities>;
using any_info = lock_info<any_capabilities>;

/// Performs an operation and waits for its result; throws what the operation fails with.
class door {
  public:
    door() = default;
    door(const door&) = delete;
    door& operator=(const door&) = delete;
    virtual ~door() = default;

    virtual any_result acquire(const any_backend& on, std::string_view key, acquire_options options,
                               std::stop_token stop) = 0;
    virtual release_result release(const any_backend& on, std::string_view id,
                                   std::stop_token stop) = 0;
    virtual extend_result extend(const any_backend& on, std::string_view id, extend_options options,
                                 std::stop_token stop) = 0;
    virtual bool is_locked(const any_backend& on, std::string_view key, std::stop_token stop) = 0;
    virtual std::optional<any_info> lookup(const any_backend& on, key_lookup which,
                                           std::stop_token stop) = 0;
    virtual std::optional<any_info> lookup(const any_backend& on, ownership_lookup which,
                                           std::stop_token stop) = 0;
    virtual release_result release(any_lease& held) = 0;
    virtual extend_result extend(any_lease& held, extend_options options) = 0;
};

struct door_kind {
    std::string name;
    std::function<std::unique_ptr<door>()> make;

    friend std::ostream& operator<<(std::ostream& out, const door_kind& kind) {
        return out << kind.name;
    }
};

[[nodiscard]] std::vector<door_kind> all_doors();

}  // namespace syncguard::test
