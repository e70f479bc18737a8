#include "harness/one_cpu.hpp"

#include <cerrno>
#include <system_error>

namespace syncguard::bench {

one_cpu::one_cpu() {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<unsigned>(::sched_getcpu()), &here);
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0 ||
        ::sched_setaffinity(0, sizeof here, &here) != 0) {
        throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
    }
}

one_cpu::~one_cpu() {
    ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace syncguard::bench
