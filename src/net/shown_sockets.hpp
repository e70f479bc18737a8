/// The sockets that a forked child inherits and must let go of.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace syncguard::net {

/// May be read at any moment, in the middle of everything else: a fork does not wait.
class shown_sockets {
  public:
    shown_sockets() noexcept {
        for (auto& each : places_)
            each = none;
    }

    void show(int socket) noexcept { replace(none, socket); }

    /// Before it is closed, or a child could close what has come to bear the same number.
    void hide(int socket) noexcept { replace(socket, none); }

    /// In the child.
    void close_all() noexcept {
        for (auto& each : places_) {
            if (const int socket = each.exchange(none); socket != none) ::close(socket);
        }
    }

  private:
    static constexpr int none = -1;

    void replace(int what, int with) noexcept {
        for (auto& each : places_) {
            int expected = what;
            if (each.compare_exchange_strong(expected, with)) return;
        }
    }

    /// More than a client has connections at a time.
    static constexpr std::size_t most = 128;
    std::array<std::atomic<int>, most> places_;
};

}  // namespace syncguard::net
