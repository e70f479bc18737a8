/// The threads that the library starts in its user's program.
#include "contract/contract.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#ifdef SYNCGUARD_WITH_REDIS
#include "support/redis_server.hpp"

#include <syncguard/redis.hpp>
#endif

#include <syncguard/async.hpp>
#include <syncguard/lock.hpp>
#include <syncguard/telemetry.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

namespace syncguard::test {
namespace {

using task_folders = std::set<std::filesystem::path>;

task_folders tasks_of_this_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return {begin(tasks), end(tasks)};
}

std::string name_of_task(const std::filesystem::path& task) {
    std::ifstream comm(task / "comm");
    std::string name;
    std::getline(comm, name);
    return name;
}

bool blocks(const std::filesystem::path& task, int signal) {
    std::ifstream status(task / "status");
    for (std::string word; status >> word;) {
        if (word != "SigBlk:") continue;
        std::uint64_t mask = 0;
        status >> std::hex >> mask;
        return (mask >> (signal - 1) & 1U) != 0;
    }
    return false;
}

class threads : public testing::TestWithParam<engine_kind> {
  protected:
    std::unique_ptr<engine_fixture> fixture_ = GetParam().make();
};

SYNCGUARD_RUN_ON_ENGINES(threads, all_engines());

TEST_P(threads, of_the_library_have_names_and_leave_signals_to_the_program) {
    // ThreadSanitizer starts a thread of its own beside the first one of the program.
    std::thread([] {}).join();
    const auto before = tasks_of_this_process();
    std::atomic<bool> is_lost{false};
    const any_backend plain = fixture_->open();
    const auto locks = with_telemetry(plain, {.on_event = [](const lock_event&) {}});
    auto lost = locks.acquire("lost", {.ttl = 60s});
    ASSERT_TRUE(lost);
    lost->on_lost([&](const loss&) { is_lost = true; });
    (void)lost->extend({.ttl = 50ms});
    boost::asio::io_context io;  // otherwise Asio starts its own threads for the handler
    auto acquiring = async_acquire(locks, "held", {.ttl = 60s},
                                   boost::asio::bind_executor(io, boost::asio::use_future));
    io.run();
    auto held = acquiring.get();
    ASSERT_TRUE(held);
    held->keep_alive();
    expect_error(error_code::acquisition_timeout,
                 [&] { (void)acquire_with_retries(locks, "held", {.timeout = 200ms}); });
    EXPECT_TRUE(eventually([&] { return is_lost.load(); }));

    int started = 0;
    for (const auto& task : tasks_of_this_process()) {
        if (before.contains(task)) continue;
        ++started;
        const auto name = name_of_task(task);
        EXPECT_TRUE(name.starts_with("syncguard-")) << name;
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE})
            EXPECT_TRUE(blocks(task, signal)) << name << " gets signal " << signal;
        // Signals of a crash are handled on the thread that crashed.
        EXPECT_FALSE(blocks(task, SIGSEGV)) << name;
    }
    // At least the telemetry thread. The others may have been started by earlier tests of this
    // process.
    EXPECT_GE(started, 1);
}

#ifdef SYNCGUARD_WITH_REDIS
TEST(threads_of_asio,
     that_look_up_a_name_for_the_library_have_a_name_and_leave_signals_to_the_program) {
    const redis_server server;
    const auto before = tasks_of_this_process();
    const auto own_task = std::filesystem::path("/proc/self/task") / std::to_string(::gettid());
    const auto own_name = name_of_task(own_task);
    const redis::backend locks({.host = "localhost", .port = server.port()});
    EXPECT_FALSE(locks.is_locked("k"));
    int started = 0;
    for (const auto& task : tasks_of_this_process()) {
        if (before.contains(task)) continue;
        ++started;
        EXPECT_TRUE(blocks(task, SIGTERM)) << name_of_task(task);
        EXPECT_TRUE(name_of_task(task).starts_with("syncguard-")) << name_of_task(task);
    }
    EXPECT_GE(started, 1);
    EXPECT_EQ(name_of_task(own_task), own_name);
}
#endif

}  // namespace
}  // namespace syncguard::test
