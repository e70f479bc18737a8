/// Servers that violate the protocol, or do not speak it at all.
#include "redis/redis_fault.hpp"
#include "support/expect_error.hpp"
#include "support/loopback.hpp"
#include "support/owned_fd.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

/// A server that greets as Redis does, and then answers every command in the same way.
class pretender {
  public:
    /// What the server sends on a new connection, in reply to the greeting, and to each command
    /// after it.
    struct lines {
        std::string at_once;
        std::string greeting = "%1\r\n+server\r\n+redis\r\n";
        std::string answer;
        bool then_close = false;
        bool without_end = false;  ///< Repeats the answer endlessly.
    };

    explicit pretender(lines says)
        : says_(std::move(says)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const sockaddr_in any = loopback_address(0);
        EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
        EXPECT_EQ(::listen(listener_.get(), 16), 0);
        thread_ = std::thread([this] { run(); });
    }
    pretender(const pretender&) = delete;
    pretender& operator=(const pretender&) = delete;
    ~pretender() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        {
            const std::lock_guard guard(mutex_);
            if (talking_to_ >= 0) ::shutdown(talking_to_, SHUT_RDWR);
            ending_ = true;
        }
        thread_.join();
    }

    [[nodiscard]] std::uint16_t port() const { return port_of(listener_.get()); }
    [[nodiscard]] int connections() const { return connections_; }

  private:
    void run() {
        while (true) {
            const owned_fd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (peer.get() < 0) return;
            {
                const std::lock_guard guard(mutex_);
                if (ending_) return;
                talking_to_ = peer.get();
            }
            ++connections_;
            talk(peer.get());
            const std::lock_guard guard(mutex_);
            talking_to_ = -1;
        }
    }
    void talk(int peer) const {
        say(peer, says_.at_once);
        if (hear(peer).empty()) return;
        say(peer, says_.greeting);
        for (auto heard = hear(peer); !heard.empty(); heard = hear(peer)) {
            for (auto left = commands_in(heard); left > 0; --left)
                say(peer, says_.answer);
            if (says_.then_close) return;
            while (says_.without_end && say(peer, says_.answer)) {
            }
        }
    }
    static bool say(int peer, const std::string& bytes) {
        return ::send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
    }
    static std::string hear(int peer) {
        std::array<char, 65'536> said{};
        const auto count = ::recv(peer, said.data(), said.size(), 0);
        return {said.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
    }
    /// Several commands may arrive together.
    static std::size_t commands_in(const std::string& heard) {
        std::size_t count = 0;
        for (const std::string name : {"\r\nEVALSHA\r\n", "\r\nEVAL\r\n"}) {
            for (auto at = heard.find(name); at != std::string::npos; at = heard.find(name, at + 1))
                ++count;
        }
        return count;
    }

    const lines says_;
    owned_fd listener_;
    std::mutex mutex_;
    int talking_to_ = -1;
    bool ending_ = false;
    std::atomic<int> connections_{0};
    std::thread thread_;
};

class redis_hostile_server : public testing::TestWithParam<api_form_kind> {
  protected:
    /// Expects one operation after another to fail with `code` in time.
    void expect_failures(const pretender::lines& says, error_code code) {
        pretender server(says);
        const any_backend locks = redis::backend(
            {.host = "127.0.0.1", .port = server.port(), .connect_timeout = 500ms}, quiet(500ms));
        const std::string id(22, 'A');
        const auto taken = time_of([&] {
            expect_error(code, [&] { (void)form_->is_locked(locks, "k", {}); });
            expect_error(code, [&] { (void)form_->extend(locks, id, {}, {}); });
            expect_error(code, [&] { (void)form_->release(locks, id, {}); });
            expect_error(code, [&] { (void)form_->lookup(locks, key_lookup{"k"}, {}); });
        });
        EXPECT_LT(taken, 4 * 500ms + margin) << says.answer.substr(0, 100);
    }

    std::unique_ptr<api_form> form_ = GetParam().make();
};

TEST_P(redis_hostile_server, garbage_is_refused) {
    for (const std::string answer :
         {"HTTP/1.1 400 Bad Request\r\n\r\n", "\r\n", "*x\r\n", ":12a\r\n", "$5\r\nabcdefgh\r\n"})
        expect_failures({.at_once = {}, .answer = answer}, error_code::internal);
    std::string zeros(1000, '\0');
    expect_failures({.at_once = {}, .answer = zeros}, error_code::internal);
}

TEST_P(redis_hostile_server, excessive_sizes_are_refused_when_they_are_announced) {
    std::string nested;
    for (int i = 0; i < 10'000; ++i)
        nested += "*1\r\n";
    for (const std::string& answer :
         {std::string("$9223372036854775807\r\n"), std::string("*2147483647\r\n"),
          std::string("*1\r\n$99999999999999999999999999\r\n"), nested,
          "+" + std::string(200'000, 'x')})
        expect_failures({.at_once = {}, .answer = answer}, error_code::internal);
}

TEST_P(redis_hostile_server, answers_of_the_wrong_shape_are_refused) {
    for (const std::string answer :
         {":1\r\n", "*0\r\n", "*1\r\n:1\r\n", "*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "+OK\r\n",
          "_\r\n", "%1\r\n:1\r\n:1\r\n", "*2\r\n_\r\n:1\r\n", "*2\r\n+1\r\n:1\r\n",
          "*2\r\n:1\r\n*0\r\n", "*2\r\n:1\r\n*1\r\n:1\r\n", "*2\r\n:1\r\n+OK\r\n",
          "*2\r\n:1\r\n:-7\r\n"}) {
        SCOPED_TRACE(answer);
        expect_failures({.at_once = {}, .answer = answer}, error_code::internal);
    }
}

TEST_P(redis_hostile_server, an_acquisition_without_a_valid_reply_fails_and_its_release_ends) {
    for (const std::string answer : {"*x\r\n", "*2\r\n:1\r\n*0\r\n"}) {
        pretender server({.at_once = {}, .answer = answer});
        std::optional<any_backend> locks =
            redis::backend({.host = "127.0.0.1", .port = server.port()}, quiet(500ms));
        expect_error(error_code::internal, [&] { (void)form_->acquire(*locks, "k", {}, {}); });
        // A lock that may have been granted is released; destruction waits for that, but not for
        // ever.
        EXPECT_LT(time_of([&] { locks.reset(); }), 1s + margin);
    }
}

TEST_P(redis_hostile_server, one_that_closes_after_the_handshake_is_not_connected_in_a_busy_loop) {
    pretender server({.at_once = {}, .answer = "", .then_close = true});
    std::optional<any_backend> locks =
        redis::backend({.host = "127.0.0.1", .port = server.port()}, quiet(500ms));
    expect_error(error_code::service_unavailable,
                 [&] { (void)form_->acquire(*locks, "k", {}, {}); });
    locks.reset();
    EXPECT_LT(server.connections(), 30);
}

TEST_P(redis_hostile_server, one_that_sends_endlessly_does_not_prevent_timeouts) {
    pretender server({.at_once = {}, .answer = ">2\r\n+a\r\n+b\r\n", .without_end = true});
    std::optional<any_backend> locks =
        redis::backend({.host = "127.0.0.1", .port = server.port()}, quiet(300ms));
    const auto taken = time_of([&] {
        for (int i = 0; i < 3; ++i) {
            expect_error(error_code::network_timeout,
                         [&] { (void)form_->is_locked(*locks, "k", {}); });
        }
    });
    EXPECT_LT(taken, 3 * 300ms + margin);
    EXPECT_LT(time_of([&] { locks.reset(); }), 1s + margin);
}

TEST_P(redis_hostile_server, more_answers_than_requests_end_the_connection) {
    pretender server({.at_once = {}, .answer = "*2\r\n:1\r\n:0\r\n*2\r\n:1\r\n:1\r\n"});
    const any_backend locks =
        redis::backend({.host = "127.0.0.1", .port = server.port()}, quiet(500ms));
    // The surplus answer must not be taken for the answer to the next request.
    for (int i = 0; i < 20; ++i) {
        try {
            EXPECT_FALSE(form_->is_locked(locks, "k", {}));
        } catch (const lock_error& failure) {
            EXPECT_EQ(failure.code(), error_code::internal) << failure.what();
        }
    }
}

TEST_P(redis_hostile_server, pushes_between_answers_are_no_answers) {
    const std::string push = ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n";
    pretender server({.at_once = push,
                      .greeting = push + "%1\r\n+server\r\n+redis\r\n" + push,
                      .answer = push + push + "*2\r\n:1\r\n:0\r\n" + push});
    const any_backend locks = redis::backend({.host = "127.0.0.1", .port = server.port()}, quiet());
    for (int i = 0; i < 20; ++i)
        EXPECT_FALSE(form_->is_locked(locks, "k", {}));
}

TEST_P(redis_hostile_server, one_that_never_answers_or_always_closes_is_an_error_in_time) {
    expect_failures({.at_once = {}, .answer = ""}, error_code::network_timeout);
    expect_failures({.at_once = {}, .answer = "", .then_close = true},
                    error_code::service_unavailable);
    expect_failures({.at_once = "-ERR go away\r\n", .greeting = "", .answer = ""},
                    error_code::internal);
    expect_failures({.at_once = {}, .answer = "-LOADING patience\r\n"},
                    error_code::service_unavailable);
    expect_failures({.at_once = {}, .answer = "-NOSCRIPT never heard of it\r\n"},
                    error_code::network_timeout);
}

INSTANTIATE_TEST_SUITE_P(all, redis_hostile_server, blocking_and_async(), name_of_api_form);

}  // namespace
}  // namespace syncguard::test
