#include "support/transaction_pooler.hpp"

#include "support/loopback.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace syncguard::test {

namespace {

struct hung_up {};

std::string read_exactly(int socket, std::size_t count) {
    std::string bytes(count, '\0');
    for (std::size_t got = 0; got < count;) {
        const auto now = ::recv(socket, bytes.data() + got, count - got, 0);
        if (now <= 0) throw hung_up{};
        got += static_cast<std::size_t>(now);
    }
    return bytes;
}

void write_all(int socket, const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
        const auto now = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (now <= 0) throw hung_up{};
        sent += static_cast<std::size_t>(now);
    }
}

/// A whole message: its type (which a client's first message does not have), length and contents.
std::string read_message(int socket, bool has_type = true) {
    std::string head = read_exactly(socket, has_type ? 5 : 4);
    std::uint32_t length = 0;
    std::memcpy(&length, head.data() + (has_type ? 1 : 0), sizeof length);
    return head + read_exactly(socket, ntohl(length) - sizeof length);
}

/// All messages up to and including the first of this type.
std::string read_until(int socket, char type) {
    std::string all;
    while (true) {
        const std::string message = read_message(socket);
        all += message;
        if (message.front() == type) return all;
        if (message.front() == 'X') throw hung_up{};
    }
}

std::string error_message(const std::string& severity, const std::string& sqlstate) {
    std::string fields;
    for (const std::string& field :
         {"S" + severity, "V" + severity, "C" + sqlstate, std::string("Mserver conn crashed?")})
        fields.append(field).push_back('\0');
    fields.push_back('\0');
    const std::uint32_t length = htonl(static_cast<std::uint32_t>(fields.size() + sizeof length));
    std::string message("E    ");
    std::memcpy(message.data() + 1, &length, sizeof length);
    return message + fields;
}

/// ReadyForQuery of a session outside a transaction.
std::string ready_for_query() {
    return {'Z', 0, 0, 0, 5, 'I'};
}

}  // namespace

transaction_pooler::transaction_pooler(std::uint16_t server_port)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), server_port_(server_port) {
    const auto anywhere = loopback_address(0);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&anywhere), sizeof anywhere) !=
            0 ||
        ::listen(listener_.get(), 64) != 0) {
        throw std::runtime_error("the pooler cannot listen");
    }
    port_ = port_of(listener_.get());
    accepting_ = std::jthread([this] {
        while (true) {
            const int client = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
            if (client < 0) return;
            const std::lock_guard guard(mutex_);
            clients_.emplace_back(client);
            servants_.emplace_back([this, client] { serve(client); });
        }
    });
}

transaction_pooler::~transaction_pooler() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    accepting_.join();
    for (const auto& each : clients_)
        ::shutdown(each.get(), SHUT_RDWR);
    servants_.clear();
}

std::optional<std::string> transaction_pooler::take(std::optional<fault>& due,
                                                    const std::string& messages) {
    const std::lock_guard guard(mutex_);
    if (!due || messages.find(due->text) == std::string::npos) return std::nullopt;
    return std::exchange(due, std::nullopt)->sqlstate;
}

void transaction_pooler::serve(int client) {
    try {
        const std::string greeting = read_message(client, false);
        struct session {
            owned_fd socket;
            bool owes_answer =
                false;  ///< The answer to a transaction that was refused early is still to be read.
        };
        std::vector<session> sessions;
        std::string welcome;
        for (int i = 0; i < 2; ++i) {
            sessions.push_back({.socket = connect_to_loopback(server_port_)});
            write_all(sessions.back().socket.get(), greeting);
            welcome = read_until(sessions.back().socket.get(), 'Z');
        }
        write_all(client, welcome);
        for (std::size_t turn = 0;; ++turn) {
            session& used = sessions[turn % sessions.size()];
            const std::string messages = read_until(client, 'S');
            if (std::exchange(used.owes_answer, false)) (void)read_until(used.socket.get(), 'Z');
            write_all(used.socket.get(), messages);
            if (const auto sqlstate = take(early_refusal_, messages)) {
                used.owes_answer = true;
                write_all(client, error_message("ERROR", *sqlstate) + ready_for_query());
                continue;
            }
            std::string answer = read_until(used.socket.get(), 'Z');
            if (const auto sqlstate = take(failure_, messages)) {
                write_all(client, error_message("FATAL", *sqlstate));
                throw hung_up{};
            }
            if (const auto sqlstate = take(refusal_, messages)) {
                answer = error_message("ERROR", *sqlstate) + ready_for_query();
            }
            write_all(client, answer);
        }
    } catch (const hung_up&) {
        ::shutdown(client, SHUT_RDWR);
    }
}

}  // namespace syncguard::test
