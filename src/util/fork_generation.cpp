#include "util/fork_generation.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace syncguard {

namespace {

enum class page_state : std::uint8_t { wiped, counting, counted };

std::atomic<std::uint32_t> generation{0};

/// Memory that the kernel fills with zeros in every child that has a copy of it, also in a child
/// that runs no fork handlers (`_Fork`, the bare system calls). Null if the kernel does not support
/// this.
std::atomic<page_state>* make_wiped_page() noexcept {
    static_assert(std::atomic<page_state>::is_always_lock_free);
    const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return nullptr;
    if (::madvise(page, size, MADV_WIPEONFORK) != 0) {
        ::munmap(page, size);
        return nullptr;
    }
    return new (page) std::atomic<page_state>(page_state::counted);
}

/// Never unmapped: leases may be used until the process ends.
std::atomic<page_state>* wiped_page() noexcept {
    static auto* const page = [] {
        auto* created = make_wiped_page();
        if (created == nullptr) {
            ::pthread_atfork(nullptr, nullptr,
                             [] { generation.fetch_add(1, std::memory_order_relaxed); });
        }
        return created;
    }();
    return page;
}

void count_this_process(std::atomic<page_state>& page) noexcept {
    auto expected = page_state::wiped;
    if (page.compare_exchange_strong(expected, page_state::counting, std::memory_order_acquire)) {
        generation.fetch_add(1, std::memory_order_relaxed);
        page.store(page_state::counted, std::memory_order_release);
        return;
    }
    // Another thread of this new process is incrementing the generation.
    while (page.load(std::memory_order_acquire) != page_state::counted) {
    }
}

}  // namespace

std::uint32_t fork_generation() noexcept {
    auto* const page = wiped_page();
    if (page != nullptr && page->load(std::memory_order_acquire) != page_state::counted) {
        count_this_process(*page);
    }
    return generation.load(std::memory_order_relaxed);
}

}  // namespace syncguard
