/// The sockets that a forked child closes.
#include "net/socket_registry.hpp"

#include "support/child_process.hpp"
#include "support/owned_fd.hpp"
#include "util/fork_guard.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <list>
#include <stdexcept>

namespace syncguard::test {
namespace {

class closing_child : public fork_participant {
  public:
    closing_child() { fork_guard::add(*this); }
    ~closing_child() override { fork_guard::remove(*this); }

    net::socket_registry sockets;

  private:
    void before_fork() override { sockets.before_fork(); }
    void after_fork_in_parent() override { sockets.after_fork_in_parent(); }
    void after_fork_in_child() override { sockets.after_fork_in_child(); }
};

struct connection {
    connection() {
        std::array<int, 2> ends{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
            throw std::runtime_error("no pair of sockets");
        }
        here = owned_fd(ends[0]);
        there = owned_fd(ends[1]);
    }

    /// Whether the peer reads the end of the stream.
    [[nodiscard]] bool has_ended() const {
        const timeval timeout{.tv_sec = 5, .tv_usec = 0};
        ::setsockopt(there.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        char byte = 0;
        return ::recv(there.get(), &byte, 1, 0) == 0;
    }

    owned_fd here;
    owned_fd there;
    net::registered_socket entry;
};

TEST(socket_registry, closes_any_number_of_sockets_in_a_child) {
    closing_child owner;
    std::list<connection> connections(300);
    {
        const net::socket_registry::no_fork guard(owner.sockets);
        for (auto& each : connections)
            owner.sockets.add(each.entry, each.here.get());
    }
    const child_process living_on([] { return ::pause(); });
    for (auto& each : connections)
        each.here = owned_fd();
    for (const auto& each : connections)
        EXPECT_TRUE(each.has_ended());
}

TEST(socket_registry, leaves_removed_sockets_open_in_a_child) {
    closing_child owner;
    connection kept;
    {
        const net::socket_registry::no_fork guard(owner.sockets);
        owner.sockets.add(kept.entry, kept.here.get());
        owner.sockets.remove(kept.entry);
    }
    child_process child([&] { return ::send(kept.here.get(), "x", 1, 0) == 1 ? 0 : 1; });
    EXPECT_EQ(child.wait(), 0);
}

TEST(socket_registry, blocks_signals_while_it_is_changed) {
    static volatile std::sig_atomic_t handled = 0;
    handled = 0;
    struct sigaction former {};
    struct sigaction action {};
    action.sa_handler = [](int) { handled = 1; };
    ::sigaction(SIGUSR1, &action, &former);
    net::socket_registry sockets;
    {
        const net::socket_registry::no_fork guard(sockets);
        ::raise(SIGUSR1);
        EXPECT_EQ(handled, 0);
    }
    EXPECT_EQ(handled, 1);
    ::sigaction(SIGUSR1, &former, nullptr);
}

}  // namespace
}  // namespace syncguard::test
