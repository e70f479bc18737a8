/// The sockets that a forked child inherits and must close.
#pragma once

#include "../core/file_descriptor.hpp"
#include "../core/library_thread.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/system/error_code.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace syncguard::net {

/// The entry of one connection in the list. It is part of the connection, so that to enter a socket
/// allocates nothing and cannot fail.
class shown_socket : public boost::intrusive::list_base_hook<
                         boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  private:
    friend class shown_sockets;
    int number_ = -1;
};

/// The sockets of a client, however many there are.
///
/// Thread safety: `show` and `hide` are called under a `no_fork`, the fork handlers around a fork.
class shown_sockets {
  public:
    /// While one exists, no other thread forks. Code that creates a socket holds it until the
    /// socket is shown, and code that closes a socket holds it from before it is hidden: so every
    /// socket that a child inherits is a shown one. Forks wait meanwhile: code that holds it must
    /// not wait for a peer.
    ///
    /// It blocks the signals of its thread, because a signal handler may fork, or take long.
    class no_fork {
      public:
        explicit no_fork(shown_sockets& sockets) noexcept : lock_(sockets.mutex_) {}

      private:
        signals_blocked blocked_;
        std::lock_guard<std::mutex> lock_;
    };

    /// Replaces the socket of the entry. A negative number is no socket.
    void show(shown_socket& entry, int number) noexcept {
        entry.unlink();
        entry.number_ = number;
        if (number >= 0) shown_.push_back(entry);
    }
    void hide(shown_socket& entry) noexcept { show(entry, -1); }

    /// Opens one of Asio's sockets. No child program inherits it. Not under a `no_fork`.
    template <class Socket>
    [[nodiscard]] boost::system::error_code open(Socket& socket,
                                                 const typename Socket::protocol_type& protocol,
                                                 shown_socket& entry) {
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
        if (!problem) show(entry, opened.release());
        return problem;
    }
    /// Closes it, if it is open. Not under a `no_fork`.
    template <class Socket>
    void close(Socket& socket, shown_socket& entry) noexcept {
        if (!socket.is_open()) return;
        const no_fork guard(*this);
        hide(entry);
        boost::system::error_code ignored;
        socket.close(ignored);
    }

    void before_fork() noexcept { mutex_.lock(); }
    void after_fork_in_parent() noexcept { mutex_.unlock(); }
    void after_fork_in_child() noexcept {
        for (const auto& each : shown_)
            ::close(each.number_);
        shown_.clear();
        mutex_.unlock();
    }

  private:
    std::mutex mutex_;
    boost::intrusive::list<shown_socket, boost::intrusive::constant_time_size<false>> shown_;
};

}  // namespace syncguard::net
