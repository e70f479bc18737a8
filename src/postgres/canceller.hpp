/// Cancel requests to PostgreSQL servers, sent from threads of their own.
#pragma once

#include <chrono>
#include <memory>

#include <libpq-fe.h>

namespace syncguard::postgres {

/// A cancel request is a connection of its own, and PQcancel (libpq 15) blocks while it connects
/// and until the server hangs up. At most two threads do that for one client, so that a server that
/// does not answer costs nothing but these.
///
/// Thread safety: all members may be called concurrently.
class canceller {
  public:
    canceller();

    struct freer {
        void operator()(PGcancel* request) const noexcept { PQfreeCancel(request); }
    };
    using request = std::unique_ptr<PGcancel, freer>;

    /// Returns at once. The request is dropped if too many wait already: then the server's own
    /// limits (`lock_timeout`) end the work.
    void start(request cancellation) noexcept;

    /// Waits until all requests were sent, for a while.
    void finish(std::chrono::milliseconds patience);

  private:
    struct state;
    static void run(state& shared) noexcept;

    /// Shared with the threads, which nobody joins: PQcancel may take minutes.
    const std::shared_ptr<state> state_;
};

}  // namespace syncguard::postgres
