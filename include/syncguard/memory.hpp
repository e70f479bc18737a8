/// Locks within one process: for tests, and for programs that are alone.
#pragma once

#include <syncguard/backend.hpp>

#include <cstdint>

namespace syncguard::memory {

struct capabilities {
    static constexpr std::string_view backend = "memory";
    static constexpr bool supports_fencing = true;
    static constexpr syncguard::time_authority time_authority = syncguard::time_authority::server;
};

struct options {
    /// The store's clock; inject one to test expiry without waiting. Empty: the clock of leases,
    /// anchored to the wall clock once. Later steps of the wall clock have no effect.
    wall_clock clock{};
    /// The first fence of each key is one greater. For programs that restart while the resource
    /// remembers fences.
    std::uint64_t fences_start_after = 0;
};

/// Copies share one store; two backends that were made apart do not. Fence counters live as long as
/// the store; a few dozen bytes stay for each key that was ever locked.
class backend : public basic_backend<capabilities> {
  public:
    explicit backend(options opts = {}, backend_options common = {});
};

}  // namespace syncguard::memory
