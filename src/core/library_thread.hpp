/// The only place where the library starts threads.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace syncguard {

/// While it exists, the calling thread gets no signals but those that report its own faults, such
/// as SIGSEGV. Threads that it creates inherit that: the signals of the process are for the
/// program's own threads.
class signals_blocked {
  public:
    signals_blocked() noexcept;
    signals_blocked(const signals_blocked&) = delete;
    signals_blocked& operator=(const signals_blocked&) = delete;
    ~signals_blocked();

  private:
    sigset_t before_{};
};

/// For debuggers and `top -H`; at most 15 characters.
void name_this_thread(const char* name) noexcept;

/// Starts a thread with that name that gets no signals. Throws `std::system_error`.
template <class Body>
[[nodiscard]] std::thread start_thread(const char* name, Body body) {
    const signals_blocked inherited;
    return std::thread([name, body = std::move(body)]() mutable {
        name_this_thread(name);
        body();
    });
}

}  // namespace syncguard
