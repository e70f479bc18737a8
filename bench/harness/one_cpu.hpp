/// Measures round trips without the cost of waking another CPU.
#pragma once

#include <sched.h>

namespace syncguard::bench {

/// While an object exists, its creator's thread stays on its current CPU, and so do all threads and
/// processes that it starts.
///
/// The scheduler places a client and a server that wait for each other on one CPU or on two. On
/// virtual machines two CPUs can take several times as long, so that contestants could not be
/// compared.
class one_cpu {
  public:
    one_cpu();
    one_cpu(const one_cpu&) = delete;
    one_cpu& operator=(const one_cpu&) = delete;
    /// Restores the CPUs of the calling thread. Threads and processes that it has started stay.
    ~one_cpu();

  private:
    cpu_set_t before_{};
};

}  // namespace syncguard::bench
