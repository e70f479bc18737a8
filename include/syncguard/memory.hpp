/// Locks within one process: for tests, and for programs that share locks with no other process.
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
    /// The first fence of each key is one greater than this. For programs that restart while the
    /// resource remembers fences.
    std::uint64_t fences_start_after = 0;
};

/// Copies of a backend share one store; separately created backends do not. Fence counters live as
/// long as the store: each key that was ever locked costs a few dozen bytes.
class backend : public basic_backend<capabilities> {
  public:
    explicit backend(options opts = {}, backend_options common = {});
};

}  // namespace syncguard::memory
