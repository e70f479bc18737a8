/// `pthread_atfork` handlers for objects.
#pragma once

#include <cstdint>

namespace syncguard {

/// An object whose state must be consistent during a fork. While it is registered, its three
/// members are called on the forking thread, before and after each fork.
class fork_participant {
  public:
    fork_participant() = default;
    fork_participant(const fork_participant&) = delete;
    fork_participant& operator=(const fork_participant&) = delete;
    virtual ~fork_participant() = default;

    /// Locks the object's mutexes and waits for running operations. The mutexes stay locked until
    /// one of the other members is called.
    virtual void before_fork() = 0;
    virtual void after_fork_in_parent() = 0;
    virtual void after_fork_in_child() = 0;
};

class fork_guard {
  public:
    static void add(fork_participant& participant);
    /// Do not call it while holding a mutex that `before_fork` locks: deadlock.
    static void remove(fork_participant& participant) noexcept;

    /// True if objects that were created in the process with that `fork_generation` are usable in
    /// this process: each fork since then ran the fork handlers. `_Fork` and the bare fork and
    /// clone system calls run none.
    [[nodiscard]] static bool covers(std::uint32_t generation) noexcept;
};

}  // namespace syncguard
