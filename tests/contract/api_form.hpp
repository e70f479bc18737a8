/// API forms: blocking, future, coroutine. The contract holds for each of them.
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
class api_form {
  public:
    api_form() = default;
    api_form(const api_form&) = delete;
    api_form& operator=(const api_form&) = delete;
    virtual ~api_form() = default;

    virtual any_result acquire(const any_backend& locks, std::string_view key,
                               acquire_options options, std::stop_token stop) = 0;
    virtual release_result release(const any_backend& locks, std::string_view id,
                                   std::stop_token stop) = 0;
    virtual extend_result extend(const any_backend& locks, std::string_view id,
                                 extend_options options, std::stop_token stop) = 0;
    virtual bool is_locked(const any_backend& locks, std::string_view key,
                           std::stop_token stop) = 0;
    virtual std::optional<any_info> lookup(const any_backend& locks, key_lookup query,
                                           std::stop_token stop) = 0;
    virtual std::optional<any_info> lookup(const any_backend& locks, ownership_lookup query,
                                           std::stop_token stop) = 0;
    virtual release_result release(any_lease& held) = 0;
    virtual extend_result extend(any_lease& held, extend_options options) = 0;
};

struct api_form_kind {
    std::string name;
    std::function<std::unique_ptr<api_form>()> make;

    friend std::ostream& operator<<(std::ostream& out, const api_form_kind& kind) {
        return out << kind.name;
    }
};

[[nodiscard]] std::vector<api_form_kind> all_api_forms();

}  // namespace syncguard::test
