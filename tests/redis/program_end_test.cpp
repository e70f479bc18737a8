/// A program that ends right after its last lease has been destroyed. The program is a forked
/// child, so the parent must not have used Asio's system executor before: its destructor would look
/// for threads that the child does not have. ctest runs each test in a process of its own.
#include "redis/redis_fault.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/owned_fd.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <stdexcept>

namespace syncguard::test {
namespace {

class redis_program_end : public testing::Test {
  protected:
    using end_of_program = std::function<void(any_lease, boost::asio::io_context&)>;

    /// Runs a program that acquires a lock, waits until `fault` has been called, calls `end` and
    /// returns from `main`. Returns its exit code.
    int run(const std::function<void()>& fault, const end_of_program& end) {
        std::array<int, 2> ends{};
        if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
        const owned_fd there(ends[0]);
        const owned_fd here(ends[1]);
        child_process program([&] {
            acquire_and_end(there.get(), end);
            std::exit(0);
            return 1;
        });
        EXPECT_TRUE(eventually([&] { return holds_lock(server_, "k"); }));
        fault();
        EXPECT_EQ(::write(here.get(), "x", 1), 1);
        return program.wait();
    }

    redis_server server_;
    fault_proxy proxy_{server_.port()};

  private:
    void acquire_and_end(int go_on, const end_of_program& end) const {
        const any_backend locks =
            redis::backend({.host = "127.0.0.1", .port = proxy_.port()}, quiet());
        // Asio's system executor has threads, which a child does not inherit.
        boost::asio::io_context io;
        auto call = async_acquire(locks, "k", {.ttl = 60s},
                                  boost::asio::bind_executor(io, boost::asio::use_future));
        io.run();
        auto lease = call.get();
        char byte = 0;
        if (!lease || ::read(go_on, &byte, 1) != 1) std::_Exit(1);
        end(*std::move(lease), io);
    }
};

TEST_F(redis_program_end, waits_for_the_release_of_a_lease_that_was_just_destroyed) {
    const auto slow = [this] { proxy_.delay(direction::to_server, 200ms); };
    EXPECT_EQ(run(slow, [](any_lease lease, auto&) { const auto gone = std::move(lease); }), 0);
    EXPECT_FALSE(holds_lock(server_, "k"));
}

TEST_F(redis_program_end, waits_for_a_release_without_a_waiting_caller) {
    const auto slow = [this] { proxy_.delay(direction::to_server, 200ms); };
    const auto release = [](any_lease lease, auto& io) {
        (void)async_release(lease, {}, boost::asio::bind_executor(io, boost::asio::use_future));
    };
    EXPECT_EQ(run(slow, release), 0);
    EXPECT_FALSE(holds_lock(server_, "k"));
}

TEST_F(redis_program_end, takes_about_a_second_at_most_if_the_server_is_silent) {
    const auto silent = [this] { proxy_.stall(direction::to_server); };
    const auto time = time_of([&] {
        EXPECT_EQ(run(silent, [](any_lease lease, auto&) { const auto gone = std::move(lease); }),
                  0);
    });
    EXPECT_LT(time, 1s + margin);
}

}  // namespace
}  // namespace syncguard::test
