/// What a backend offers, known at compile time if its engine is.
#pragma once

#include <concepts>
#include <string_view>

namespace syncguard {

/// Which clock decides about expiry.
enum class time_authority {
    server,  ///< One clock, the store's, for all clients.
    client,  ///< Each client's own clock; the clients must be synchronised.
};

[[nodiscard]] constexpr std::string_view to_string(time_authority authority) noexcept {
    return authority == time_authority::server ? "server" : "client";
}

/// A type that describes a backend at compile time. `supports_fencing` decides whether leases,
/// results and lock information have a `fence`.
template <class T>
concept capability_set = requires {
    { T::supports_fencing } -> std::convertible_to<bool>;
};

/// The capabilities of a backend at run time.
struct backend_capabilities {
    std::string_view backend;  ///< The engine's name: "memory", "sqlite", ...
    bool supports_fencing;
    syncguard::time_authority time_authority;
};

/// The capabilities of a backend whose engine is chosen at run time: it has fences.
struct any_capabilities {
    static constexpr bool supports_fencing = true;
};

}  // namespace syncguard
