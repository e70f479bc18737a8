/// What must not be caught in the middle when the process forks.
#pragma once

#include <cstdint>

namespace syncguard {

/// Something with state that a fork must find at rest. While it is registered, it is asked around
/// every fork; the three members run on the forking thread.
class fork_participant {
  public:
    fork_participant() = default;
    fork_participant(const fork_participant&) = delete;
    fork_participant& operator=(const fork_participant&) = delete;
    virtual ~fork_participant() = default;

    /// Comes to rest, and stays there until one of the others is called.
    virtual void before_fork() = 0;
    virtual void after_fork_in_parent() = 0;
    virtual void after_fork_in_child() = 0;
};

class fork_guard {
  public:
    static void add(fork_participant& participant);
    /// Must not be called while the participant holds what `before_fork` waits for.
    static void remove(fork_participant& participant) noexcept;

    /// Whether state from the process with that `fork_generation` is usable here: every fork from
    /// it to this process called the participants. `_Fork` and the bare system calls do not.
    [[nodiscard]] static bool covers(std::uint32_t generation) noexcept;
};

}  // namespace syncguard
