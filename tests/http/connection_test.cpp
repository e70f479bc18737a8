/// Connections to hosts that do not answer.
#include "http/connection.hpp"

#include "support/expect_error.hpp"
#include "support/loopback.hpp"

#include <boost/asio/co_spawn.hpp>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// An address that does not answer: its listen backlog is full.
class dead_end {
  public:
    dead_end() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const auto anywhere = loopback_address(0);
        EXPECT_EQ(
            ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&anywhere), sizeof anywhere),
            0);
        EXPECT_EQ(::listen(listener_.get(), 0), 0);
        first_ = connect_to_loopback(port_of(listener_.get()));
    }
    [[nodiscard]] boost::asio::ip::tcp::endpoint address() const {
        return {boost::asio::ip::address_v4::loopback(), port_of(listener_.get())};
    }

  private:
    owned_fd listener_;
    owned_fd first_;
};

class a_connection : public testing::Test {
  protected:
    /// Tries both addresses, for at most this time in all.
    void open(std::chrono::milliseconds at_most) {
        std::exception_ptr failure;
        boost::asio::co_spawn(context_,
                              connection_.open_to({first_.address(), second_.address()}, *ctx_,
                                                  steady_clock::now() + at_most),
                              [&](const std::exception_ptr& thrown) { failure = thrown; });
        context_.run();
        if (failure) std::rethrow_exception(failure);
    }

    dead_end first_;
    dead_end second_;
    boost::asio::io_context context_;
    const net::http_origin origin_{.host = "dead.example", .port = 1, .tls = false};
    const std::string server_name_ = "a dead host";
    net::socket_registry sockets_;
    net::http_connection connection_{context_, origin_, server_name_, nullptr, sockets_};
    std::shared_ptr<net::call_context> ctx_ = std::make_shared<net::call_context>(context_);
};

TEST_F(a_connection, is_abandoned_at_the_deadline_whatever_addresses_are_left) {
    ctx_->set_deadline(steady_clock::now() + 50ms, {error_code::network_timeout, "too late"});
    const auto begin = steady_clock::now();
    const auto failure = expect_error(error_code::network_timeout, [&] { open(60s); });
    ASSERT_TRUE(failure);
    EXPECT_STREQ(failure->what(), "too late");
    EXPECT_LT(steady_clock::now() - begin, 15s);
}

TEST_F(a_connection, is_abandoned_when_cancelled_whatever_addresses_are_left) {
    boost::asio::steady_timer soon(context_, 50ms);
    soon.async_wait([&](const auto&) { ctx_->cancel({error_code::aborted, "unwanted"}); });
    const auto begin = steady_clock::now();
    expect_error(error_code::aborted, [&] { open(60s); });
    EXPECT_LT(steady_clock::now() - begin, 15s);
}

TEST_F(a_connection, tries_every_address_within_its_time) {
    const auto begin = steady_clock::now();
    expect_error(error_code::network_timeout, [&] { open(200ms); });
    EXPECT_GE(steady_clock::now() - begin, 200ms);
}

}  // namespace
}  // namespace syncguard::test
