#include "cli/shared_deadline.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace syncguard::cli {

using shared_value = std::atomic<lease_clock::rep>;
static_assert(shared_value::is_always_lock_free, "two processes share the value");

shared_deadline::shared_deadline(lease_clock::time_point deadline) {
    void* page = ::mmap(nullptr, sizeof(shared_value), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    value_ = new (page) shared_value(deadline.time_since_epoch().count());
}

shared_deadline::~shared_deadline() {
    ::munmap(value_, sizeof(shared_value));
}

void shared_deadline::set(lease_clock::time_point deadline) noexcept {
    value_->store(deadline.time_since_epoch().count());
}

bool shared_deadline::has_passed() const noexcept {
    return lease_clock::now().time_since_epoch().count() >= value_->load();
}

}  // namespace syncguard::cli
