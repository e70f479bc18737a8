/// Starts the threads of the library: all of them have a name and block signals.
#pragma once

#include <array>
#include <csignal>
#include <thread>
#include <utility>

namespace syncguard {

/// While this object exists, the calling thread receives no signals except those that report its
/// own faults, such as SIGSEGV. Threads that it creates inherit this signal mask, so that signals
/// to the process are delivered to the program's own threads.
class signals_blocked {
  public:
    signals_blocked() noexcept;
    signals_blocked(const signals_blocked&) = delete;
    signals_blocked& operator=(const signals_blocked&) = delete;
    ~signals_blocked();

    /// Whether a signal is pending that the thread would receive without this object.
    [[nodiscard]] bool any_pending() const noexcept;
    /// Lets the thread receive such signals now: their handlers have run when this returns.
    void receive_pending() const noexcept;

  private:
    sigset_t before_{};
};

/// Sets the name that debuggers and `top -H` show; at most 15 characters.
void name_this_thread(const char* name) noexcept;

/// While this object exists, threads that the calling thread creates inherit this name, for threads
/// that other libraries start. The calling thread has the name meanwhile, too.
class inherited_thread_name {
  public:
    explicit inherited_thread_name(const char* name) noexcept;
    inherited_thread_name(const inherited_thread_name&) = delete;
    inherited_thread_name& operator=(const inherited_thread_name&) = delete;
    ~inherited_thread_name();

  private:
    std::array<char, 16> before_{};
};

/// Starts a thread with this name that receives no signals. Throws `std::system_error`.
template <class Body>
[[nodiscard]] std::thread start_thread(const char* name, Body body) {
    const signals_blocked inherited;
    return std::thread([name, body = std::move(body)]() mutable {
        name_this_thread(name);
        body();
    });
}

}  // namespace syncguard
