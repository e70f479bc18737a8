/// Round trips without the price of waking another CPU.
#pragma once

#include <sched.h>

namespace syncguard::bench {

/// While it lives, the calling thread stays on the CPU that it is on, and so does every thread and
/// process that it starts.
///
/// A client and a server that wait for each other are either on one CPU or on two, as the scheduler
/// likes. On virtual machines the second can take several times as long, so that contestants could
/// not be compared.
class one_cpu {
  public:
    one_cpu();
    one_cpu(const one_cpu&) = delete;
    one_cpu& operator=(const one_cpu&) = delete;
    /// The calling thread may go where it could before; what it started stays.
    ~one_cpu();

  private:
    cpu_set_t before_{};
};

}  // namespace syncguard::bench
