/// The sockets that a forked child inherits and must close.
#pragma once

#include "util/file_descriptor.hpp"
#include "util/library_thread.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/system/error_code.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace syncguard::net {

/// The entry of one connection in the list. It is a member of the connection, so that adding a
/// socket does not allocate and cannot fail.
class registered_socket : public boost::intrusive::list_base_hook<
                              boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  private:
    friend class socket_registry;
    int number_ = -1;
};

/// The list of all sockets of a client.
///
/// Thread safety: `add` and `remove` are called while a `no_fork` exists; the fork handlers run
/// around a fork.
class socket_registry {
  public:
    /// While one exists, no other thread can fork. Code that creates a socket holds it until the
    /// socket is in the list, and code that closes a socket holds it from before the socket is
    /// removed from the list: so the list contains every socket that a child inherits. Forks wait
    /// during that time, so code that holds it must not wait for a peer.
    ///
    /// It blocks the signals of its thread, because a signal handler could fork, or run for long.
    class no_fork {
      public:
        explicit no_fork(socket_registry& sockets) noexcept : lock_(sockets.mutex_) {}

      private:
        signals_blocked blocked_;
        std::lock_guard<std::mutex> lock_;
    };

    /// Replaces the socket of the entry. A negative number means no socket.
    void add(registered_socket& entry, int number) noexcept {
        entry.unlink();
        entry.number_ = number;
        if (number >= 0) sockets_.push_back(entry);
    }
    void remove(registered_socket& entry) noexcept { add(entry, -1); }

    /// Opens an Asio socket that child programs do not inherit. Not while a `no_fork` exists.
    template <class Socket>
    [[nodiscard]] boost::system::error_code open(Socket& socket,
                                                 const typename Socket::protocol_type& protocol,
                                                 registered_socket& entry) {
        const no_fork guard(*this);
        boost::system::error_code problem;
        const int number =
            ::socket(protocol.family(), protocol.type() | SOCK_CLOEXEC, protocol.protocol());
        if (number < 0) {
            problem.assign(errno, boost::system::system_category());
            return problem;
        }
        file_descriptor opened(number, "socket");
        socket.assign(protocol, number, problem);
        if (!problem) add(entry, opened.release());
        return problem;
    }
    /// Closes an Asio socket, if it is open. Not while a `no_fork` exists.
    template <class Socket>
    void close(Socket& socket, registered_socket& entry) noexcept {
        if (!socket.is_open()) return;
        const no_fork guard(*this);
        remove(entry);
        boost::system::error_code ignored;
        socket.close(ignored);
    }

    void before_fork() noexcept { mutex_.lock(); }
    void after_fork_in_parent() noexcept { mutex_.unlock(); }
    void after_fork_in_child() noexcept {
        for (const auto& each : sockets_)
            ::close(each.number_);
        sockets_.clear();
        mutex_.unlock();
    }

  private:
    std::mutex mutex_;
    boost::intrusive::list<registered_socket, boost::intrusive::constant_time_size<false>> sockets_;
};

}  // namespace syncguard::net
