/// `fork_generation`: distinguishes a process from its parent.
#pragma once

#include <cstdint>

namespace syncguard {

/// A number that is greater in a child process than in its parent, however the child was created
/// (except by vfork or CLONE_VM, where both share their memory). An object that stores it can
/// detect that the threads, locks and connections it refers to belong to another process.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

}  // namespace syncguard
