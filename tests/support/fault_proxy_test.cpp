#include "support/fault_proxy.hpp"

#include "support/eventually.hpp"
#include "support/redis_server.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using enum direction;

/// How long a test waits for a reply that must not come.
constexpr auto a_moment = 50ms;

class fault_proxy_test : public testing::Test {
  protected:
    /// A connection through the proxy that has received its first answer.
    [[nodiscard]] redis_connection connect(std::chrono::milliseconds timeout = 20s) const {
        redis_connection through_proxy(proxy_.port(), timeout);
        EXPECT_EQ(through_proxy.command({"PING"}).text, "PONG");
        return through_proxy;
    }
    [[nodiscard]] bool stored(const std::string& key) const {
        return server_.command({"EXISTS", key}).integer == 1;
    }

    redis_server server_;
    fault_proxy proxy_{server_.port()};
};

/// The bytes read from the proxy until the connection ends, and the error that ends it (0: none).
struct remains {
    std::string bytes;
    int error = 0;
};

remains read_to_the_end(int socket) {
    remains read;
    for (;;) {
        std::array<char, 1024> buffer{};
        const auto n = ::recv(socket, buffer.data(), buffer.size(), 0);
        if (n < 0) read.error = errno;
        if (n <= 0) return read;
        read.bytes.append(buffer.data(), static_cast<std::size_t>(n));
    }
}

void send_text(int socket, std::string_view text) {
    ASSERT_EQ(::send(socket, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
}

TEST_F(fault_proxy_test, without_faults_it_forwards_and_counts_everything) {
    auto client = connect();
    const std::string large(1'000'000, 'x');
    EXPECT_EQ(client.command({"SET", "k", large}).text, "OK");
    EXPECT_EQ(client.command({"GET", "k"}).text, large);
    EXPECT_EQ(proxy_.connections(), 1U);
    EXPECT_GT(proxy_.forwarded(to_server), large.size());
    EXPECT_GT(proxy_.forwarded(to_client), large.size());
}

TEST_F(fault_proxy_test, a_delay_holds_answers_back) {
    auto client = connect();
    proxy_.delay(to_client, 40ms);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(client.command({"PING"}).text, "PONG");
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 40ms);
}

TEST_F(fault_proxy_test, a_stalled_answer_is_kept_and_not_lost) {
    auto impatient = connect(a_moment);
    auto patient = connect();
    proxy_.stall(to_client);
    impatient.send({"SET", "k", "v"});
    patient.send({"PING"});
    EXPECT_THROW((void)impatient.receive(), std::system_error);
    EXPECT_TRUE(stored("k"));
    proxy_.resume(to_client);
    EXPECT_EQ(impatient.receive().text, "OK");
    EXPECT_EQ(patient.receive().text, "PONG");
}

TEST_F(fault_proxy_test, a_stalled_request_does_not_reach_the_server) {
    auto client = connect(a_moment);
    proxy_.stall(to_server);
    client.send({"SET", "k", "v"});
    EXPECT_THROW((void)client.receive(), std::system_error);
    EXPECT_FALSE(stored("k"));
    proxy_.resume(to_server);
    EXPECT_EQ(client.receive().text, "OK");
}

TEST_F(fault_proxy_test, a_discarded_answer_never_comes_although_the_command_was_executed) {
    auto client = connect(a_moment);
    proxy_.discard(to_client);
    client.send({"SET", "k", "v"});
    EXPECT_TRUE(eventually([&] { return proxy_.discarded(to_client) == 5; }));
    proxy_.discard(to_client, false);
    EXPECT_TRUE(stored("k"));
    EXPECT_EQ(client.command({"PING"}).text, "PONG");
}

TEST_F(fault_proxy_test, a_cut_comes_after_exactly_the_given_bytes) {
    for (const auto mode : {closing::orderly, closing::reset}) {
        for (std::uint64_t bytes = 0; bytes < 7; ++bytes) {
            const owned_fd client = connect_to_loopback(proxy_.port());
            proxy_.arm_cut(to_client, bytes, mode);
            send_text(client.get(), "PING\r\n");
            const auto got = read_to_the_end(client.get());
            EXPECT_EQ(got.bytes, std::string("+PONG\r\n").substr(0, bytes));
            EXPECT_EQ(got.error, mode == closing::reset ? ECONNRESET : 0);
        }
    }
    EXPECT_EQ(proxy_.cuts(), 14U);
    EXPECT_TRUE(eventually([&] { return proxy_.open_connections() == 0; }));
}

TEST_F(fault_proxy_test, a_cut_request_is_not_executed_and_a_complete_one_is) {
    const std::string request = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    const auto cut_after = [&](std::uint64_t bytes) {
        const owned_fd client = connect_to_loopback(proxy_.port());
        proxy_.arm_cut(to_server, bytes);
        send_text(client.get(), request);
        EXPECT_EQ(read_to_the_end(client.get()).bytes, "");
    };
    cut_after(request.size() - 1);
    // Only the connection of this command is left: the server has seen the end of the other.
    ASSERT_TRUE(eventually([&] {
        return std::ranges::count(server_.command({"CLIENT", "LIST"}).text, '\n') == 1;
    }));
    EXPECT_FALSE(stored("k"));
    cut_after(request.size());
    EXPECT_TRUE(eventually([&] { return stored("k"); }));
}

TEST_F(fault_proxy_test, a_cut_ends_one_connection_once) {
    auto one = connect();
    auto other = connect();
    proxy_.arm_cut(to_client, 7);
    EXPECT_EQ(one.command({"PING"}).text, "PONG");
    EXPECT_THROW(one.command({"PING"}), std::runtime_error);
    EXPECT_EQ(other.command({"PING"}).text, "PONG");
    proxy_.arm_cut(to_client, 0);
    proxy_.disarm_cut();
    EXPECT_EQ(other.command({"PING"}).text, "PONG");
}

TEST_F(fault_proxy_test, sliced_answers_arrive_complete) {
    auto client = connect();
    const std::string text(300, 'x');
    client.command({"SET", "k", text});
    for (const auto way : {to_server, to_client})
        proxy_.slice(way, true, 50us);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(client.command({"GET", "k"}).text, text);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 300 * 50us);
}

TEST_F(fault_proxy_test, refused_connections_are_closed_and_existing_ones_are_kept) {
    auto client = connect();
    proxy_.refuse_connections();
    const owned_fd refused = connect_to_loopback(proxy_.port());
    EXPECT_EQ(read_to_the_end(refused.get()).bytes, "");
    EXPECT_EQ(proxy_.refused(), 1U);
    EXPECT_EQ(client.command({"PING"}).text, "PONG");
    proxy_.refuse_connections(false);
    EXPECT_EQ(connect().command({"PING"}).text, "PONG");
}

TEST_F(fault_proxy_test, dropping_all_cuts_existing_connections_and_no_later_ones) {
    for (const auto mode : {closing::orderly, closing::reset}) {
        const owned_fd client = connect_to_loopback(proxy_.port());
        ASSERT_TRUE(eventually([&] { return proxy_.open_connections() == 1; }));
        proxy_.drop_all(mode);
        EXPECT_EQ(proxy_.open_connections(), 0U);
        EXPECT_EQ(read_to_the_end(client.get()).error, mode == closing::reset ? ECONNRESET : 0);
    }
    EXPECT_EQ(connect().command({"PING"}).text, "PONG");
}

TEST_F(fault_proxy_test, the_end_of_a_connection_is_passed_on) {
    {
        auto client = connect();
        EXPECT_EQ(client.command({"QUIT"}).text, "OK");
        EXPECT_THROW((void)client.receive(), std::runtime_error);
    }
    {
        const auto client = connect();
        EXPECT_EQ(proxy_.open_connections(), 1U);
    }
    EXPECT_TRUE(eventually([&] { return proxy_.open_connections() == 0; }));
}

TEST_F(fault_proxy_test, outlives_its_server) {
    server_.kill();
    const owned_fd client = connect_to_loopback(proxy_.port());
    EXPECT_EQ(read_to_the_end(client.get()).error, ECONNRESET);
    server_.restart();
    EXPECT_EQ(connect().command({"PING"}).text, "PONG");
}

}  // namespace
}  // namespace syncguard::test
