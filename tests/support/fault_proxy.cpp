#include "support/fault_proxy.hpp"

#include "support/eventually.hpp"
#include "support/loopback.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace syncguard::test {

namespace {

constexpr std::array both_ways = {direction::to_server, direction::to_client};

/// The proxy reads no more than this in advance, so that a slow receiver blocks its sender.
constexpr std::size_t most_held_back = 256 * 1024;

bool would_block() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

void make_prompt_and_nonblocking(int socket) {
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
    const int yes = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

owned_fd listen_on_free_port() {
    owned_fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in any = loopback_address(0);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
        ::listen(socket.get(), 128) != 0) {
        throw std::system_error(errno, std::generic_category(), "listen on 127.0.0.1");
    }
    return socket;
}

void reset_on_close(int socket) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/// Whether the peer has reset the connection, after which it acknowledges nothing.
bool is_gone(int socket) {
    pollfd state{.fd = socket, .events = 0, .revents = 0};
    return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

void prepare_to_close(int socket, closing mode) {
    if (mode == closing::reset) {
        // A reset discards data that the peer's system has not acknowledged yet.
        (void)eventually(
            [socket] {
                int unacknowledged = 0;
                return is_gone(socket) || ::ioctl(socket, SIOCOUTQ, &unacknowledged) != 0 ||
                       unacknowledged == 0;
            },
            std::chrono::seconds(1));
        reset_on_close(socket);
        return;
    }
    ::shutdown(socket, SHUT_WR);
    // Closing a socket with unread bytes would be a reset.
    std::array<char, 4096> unread{};
    while (::recv(socket, unread.data(), unread.size(), 0) > 0) {
    }
}

}  // namespace

/// One direction of a connection: bytes read and not yet forwarded.
struct fault_proxy::flow {
    struct piece {
        std::string bytes;
        clock::time_point due;
    };
    std::deque<piece> pieces;
    std::size_t held_back = 0;
    clock::time_point next_slice{};
    bool ended = false;
    bool end_forwarded = false;
    bool receiver_is_full = false;

    [[nodiscard]] bool wants_to_read() const { return !ended && held_back < most_held_back; }
    [[nodiscard]] std::optional<clock::time_point> due() const {
        if (pieces.empty()) return std::nullopt;
        return std::max(pieces.front().due, next_slice);
    }
};

struct fault_proxy::connection {
    owned_fd client;
    owned_fd server;
    std::array<flow, 2> flows{};

    [[nodiscard]] flow& way(direction dir) { return flows[dir == direction::to_client]; }
    [[nodiscard]] int sender(direction dir) const {
        return (dir == direction::to_server ? client : server).get();
    }
    [[nodiscard]] int receiver(direction dir) const {
        return (dir == direction::to_server ? server : client).get();
    }
    void prepare_to_close(closing mode) const {
        test::prepare_to_close(client.get(), mode);
        test::prepare_to_close(server.get(), mode);
    }
};

fault_proxy::fault_proxy(std::uint16_t target_port)
    : listener_(listen_on_free_port()),
      target_port_(target_port),
      port_(port_of(listener_.get())),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

fault_proxy::~fault_proxy() {
    change([this] { stopping_ = true; });
    thread_.join();
}

void fault_proxy::delay(direction way, std::chrono::milliseconds time) {
    change([&] { settings(way).delay = time; });
}

void fault_proxy::stall(direction way) {
    change([&] { settings(way).stalled = true; });
}

void fault_proxy::resume(direction way) {
    change([&] { settings(way).stalled = false; });
}

void fault_proxy::discard(direction way, bool on) {
    change([&] { settings(way).discarding = on; });
}

void fault_proxy::arm_cut(direction way, std::uint64_t bytes, closing mode) {
    change([&] { cut_ = {.way = way, .bytes_left = bytes, .mode = mode}; });
}

void fault_proxy::disarm_cut() {
    change([&] { cut_.reset(); });
}

void fault_proxy::slice(direction way, bool on, std::chrono::microseconds pause) {
    change([&] {
        settings(way).slicing = on;
        settings(way).slice_pause = pause;
    });
}

void fault_proxy::refuse_connections(bool on) {
    change([&] { refusing_ = on; });
}

void fault_proxy::drop_all(closing mode) {
    change([&] { drop_ = mode; });
    std::unique_lock lock(mutex_);
    dropped_.wait(lock, [this] { return !drop_; });
}

std::uint64_t fault_proxy::connections() const {
    const std::lock_guard guard(mutex_);
    return accepted_;
}

std::uint64_t fault_proxy::refused() const {
    const std::lock_guard guard(mutex_);
    return refused_;
}

std::size_t fault_proxy::open_connections() const {
    const std::lock_guard guard(mutex_);
    return connections_.size();
}

std::uint64_t fault_proxy::forwarded(direction way) const {
    const std::lock_guard guard(mutex_);
    return settings(way).forwarded;
}

std::uint64_t fault_proxy::discarded(direction way) const {
    const std::lock_guard guard(mutex_);
    return settings(way).discarded;
}

std::uint64_t fault_proxy::cuts() const {
    const std::lock_guard guard(mutex_);
    return cuts_;
}

fault_proxy::way_settings& fault_proxy::settings(direction way) {
    return settings_[way == direction::to_client];
}

const fault_proxy::way_settings& fault_proxy::settings(direction way) const {
    return settings_[way == direction::to_client];
}

void fault_proxy::retarget(std::uint16_t port) {
    change([&] { target_port_ = port; });
}

template <class Change>
void fault_proxy::change(Change apply) {
    const std::lock_guard guard(mutex_);
    apply();
    (void)::eventfd_write(wake_.get(), 1);
}

/// Each round tries every accept, read and write without blocking, whatever woke the thread.
void fault_proxy::run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        accept_all();
        for (auto each = connections_.begin(); each != connections_.end();) {
            const auto end = drop_ ? drop_ : pump(*each);
            if (end) each->prepare_to_close(*end);
            each = end ? connections_.erase(each) : std::next(each);
        }
        if (drop_) {
            drop_.reset();
            dropped_.notify_all();
        }
        wait_for_work(lock);
    }
}

void fault_proxy::wait_for_work(std::unique_lock<std::mutex>& lock) {
    std::vector<pollfd> sockets = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    std::optional<clock::time_point> wake_at;
    for (auto& each : connections_) {
        for (const auto way : both_ways) {
            if (settings(way).stalled) continue;
            const flow& stream = each.way(way);
            if (stream.wants_to_read())
                sockets.push_back({.fd = each.sender(way), .events = POLLIN, .revents = 0});
            if (stream.receiver_is_full) {
                sockets.push_back({.fd = each.receiver(way), .events = POLLOUT, .revents = 0});
            } else if (const auto due = stream.due()) {
                wake_at = wake_at ? std::min(*wake_at, *due) : *due;
            }
        }
    }
    timespec timeout{};
    if (wake_at) {
        const auto left = std::max(clock::duration(0), *wake_at - clock::now());
        const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
        timeout = {.tv_sec = seconds.count(),
                   .tv_nsec = std::chrono::nanoseconds(left - seconds).count()};
    }
    lock.unlock();
    ::ppoll(sockets.data(), sockets.size(), wake_at ? &timeout : nullptr, nullptr);
    eventfd_t ignored = 0;
    (void)::eventfd_read(wake_.get(), &ignored);
    lock.lock();
}

void fault_proxy::accept_all() {
    for (;;) {
        owned_fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client.get() < 0) return;
        if (refusing_) {
            ++refused_;
            continue;
        }
        ++accepted_;
        make_prompt_and_nonblocking(client.get());
        try {
            owned_fd server = connect_to_loopback(target_port_);
            make_prompt_and_nonblocking(server.get());
            connections_.push_back({.client = std::move(client), .server = std::move(server)});
        } catch (const std::system_error&) {
            reset_on_close(client.get());
        }
    }
}

std::optional<closing> fault_proxy::pump(connection& conn) {
    for (const auto way : both_ways) {
        if (settings(way).stalled) continue;
        if (const auto end = read(conn, way)) return end;
        if (const auto end = write(conn, way)) return end;
    }
    const bool is_over = std::ranges::all_of(conn.flows, &flow::end_forwarded);
    return is_over ? std::optional(closing::orderly) : std::nullopt;
}

std::optional<closing> fault_proxy::read(connection& conn, direction way) {
    auto& rules = settings(way);
    flow& stream = conn.way(way);
    while (stream.wants_to_read()) {
        std::array<char, 16 * 1024> buffer{};
        const auto n = ::recv(conn.sender(way), buffer.data(), buffer.size(), 0);
        if (n < 0) return would_block() ? std::nullopt : std::optional(closing::reset);
        const auto count = static_cast<std::size_t>(n);
        if (n == 0) {
            stream.ended = true;
        } else if (rules.discarding) {
            rules.discarded += count;
        } else {
            stream.pieces.push_back(
                {.bytes = std::string(buffer.data(), count), .due = clock::now() + rules.delay});
            stream.held_back += count;
        }
    }
    return std::nullopt;
}

std::optional<closing> fault_proxy::write(connection& conn, direction way) {
    auto& rules = settings(way);
    flow& stream = conn.way(way);
    stream.receiver_is_full = false;
    while (stream.due() && *stream.due() <= clock::now()) {
        std::string& bytes = stream.pieces.front().bytes;
        const bool armed = cut_ && cut_->way == way;
        std::size_t count = rules.slicing ? 1 : bytes.size();
        if (armed) count = std::min<std::size_t>(count, cut_->bytes_left);
        if (count > 0) {
            const auto n = ::send(conn.receiver(way), bytes.data(), count, MSG_NOSIGNAL);
            if (n < 0 && would_block()) {
                stream.receiver_is_full = true;
                return std::nullopt;
            }
            if (n < 0) return closing::reset;
            count = static_cast<std::size_t>(n);
            rules.forwarded += count;
            stream.held_back -= count;
            if (rules.slicing) stream.next_slice = clock::now() + rules.slice_pause;
            bytes.erase(0, count);
            if (bytes.empty()) stream.pieces.pop_front();
        }
        if (armed && (cut_->bytes_left -= count) == 0) {
            const auto mode = cut_->mode;
            cut_.reset();
            ++cuts_;
            return mode;
        }
    }
    if (stream.ended && stream.pieces.empty() && !stream.end_forwarded) {
        ::shutdown(conn.receiver(way), SHUT_WR);
        stream.end_forwarded = true;
    }
    return std::nullopt;
}

}  // namespace syncguard::test
