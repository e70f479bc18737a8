#include "harness/hand_offs.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

namespace syncguard::bench {

namespace {

using std::chrono::steady_clock;

/// So that the thread that has just released is not the first to acquire again.
constexpr std::chrono::milliseconds pause_after_release{10};

/// Memory that the processes share. Only the holder of the lock writes.
struct log_book {
    std::atomic<std::int64_t> release_began{0};
    std::atomic<pid_t> released_by{0};
    std::atomic<std::size_t> acquisitions{0};
    std::atomic<std::size_t> hand_offs{0};
};

class shared_log {
  public:
    explicit shared_log(std::size_t hand_offs)
        : bytes_(sizeof(log_book) + hand_offs * sizeof(std::int64_t)), wanted_(hand_offs) {
        void* const memory =
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
        book_ = new (memory) log_book;
    }
    shared_log(const shared_log&) = delete;
    shared_log& operator=(const shared_log&) = delete;
    ~shared_log() { ::munmap(book_, bytes_); }

    [[nodiscard]] log_book& book() const noexcept { return *book_; }
    [[nodiscard]] bool is_full() const noexcept { return book_->hand_offs >= wanted_; }
    [[nodiscard]] std::span<std::int64_t> times() const noexcept {
        return {reinterpret_cast<std::int64_t*>(book_ + 1), wanted_};
    }

  private:
    std::size_t bytes_;
    std::size_t wanted_;
    log_book* book_;
};

std::int64_t now_ns() {
    return std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
}

void note_acquisition(const shared_log& log) {
    const auto now = now_ns();
    auto& book = log.book();
    ++book.acquisitions;
    const auto from = book.released_by.load();
    if (from == 0 || from == ::getpid() || log.is_full()) return;
    log.times()[book.hand_offs] = now - book.release_began;
    ++book.hand_offs;
}

void pass_on_until_full(const shared_log& log, const any_backend& locks, const taking& take,
                        std::chrono::microseconds in_hand) {
    while (!log.is_full()) {
        auto lease = take(locks);
        note_acquisition(log);
        if (!log.is_full()) std::this_thread::sleep_for(in_hand);
        log.book().released_by = ::getpid();
        log.book().release_began = now_ns();
        (void)lease.release();
        std::this_thread::sleep_for(pause_after_release);
    }
}

[[noreturn]] void live_as_child(const shared_log& log, const std::function<any_backend()>& open,
                                const taking& take, const crowd& waiting) {
    int exit_code = 0;
    try {
        const auto locks = open();
        std::atomic<bool> failed{false};
        std::vector<std::jthread> threads;
        for (int i = 0; i < waiting.threads_each; ++i) {
            threads.emplace_back([&] {
                try {
                    pass_on_until_full(log, locks, take, waiting.in_hand);
                } catch (const std::exception& failure) {
                    std::fprintf(stderr, "hand-offs: %s\n", failure.what());
                    failed = true;
                }
            });
        }
        threads.clear();
        exit_code = failed ? 1 : 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "hand-offs: %s\n", failure.what());
        exit_code = 1;
    }
    ::_exit(exit_code);
}

}  // namespace

hand_off_times measure_hand_offs(const std::function<any_backend()>& open, const taking& take,
                                 crowd waiting, std::size_t hand_offs,
                                 const std::function<void()>& meanwhile) {
    const shared_log log(hand_offs);
    std::vector<pid_t> children;
    for (int i = 0; i < waiting.processes; ++i) {
        const pid_t child = ::fork();
        if (child == 0) live_as_child(log, open, take, waiting);
        if (child < 0) throw std::runtime_error("cannot fork");
        children.push_back(child);
    }
    while (meanwhile && !log.is_full())
        meanwhile();
    bool all_well = true;
    for (const pid_t child : children) {
        int status = 0;
        all_well = ::waitpid(child, &status, 0) == child && status == 0 && all_well;
    }
    if (!all_well) throw std::runtime_error("a process that waits for the lock failed");

    std::vector<std::int64_t> times(log.times().begin(), log.times().end());
    std::sort(times.begin(), times.end());
    return {.median_us = static_cast<double>(times[times.size() / 2]) / 1e3,
            .p99_us = static_cast<double>(times[times.size() * 99 / 100]) / 1e3,
            .acquisitions = log.book().acquisitions};
}

}  // namespace syncguard::bench
