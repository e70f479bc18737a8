/// Sends cancel requests to PostgreSQL servers, on its own threads.
#pragma once

#include <chrono>
#include <memory>

#include <libpq-fe.h>

namespace syncguard::postgres {

/// PQcancel (libpq 15) opens a connection for each cancel request, and blocks while it connects and
/// until the server closes that connection. At most two threads of a client run it, so that a
/// server that does not answer blocks only these threads.
///
/// A child that is forked while PQcancel runs inherits its socket, to which libpq gives no access,
/// and keeps the descriptor open. This has no effect on the server: the connection carries one
/// request and no session, and the server closes it after reading the request. A fork does not wait
/// for PQcancel, because PQcancel waits for the server.
///
/// Thread safety: all members may be called concurrently.
class canceller {
  public:
    canceller();

    struct freer {
        void operator()(PGcancel* request) const noexcept { PQfreeCancel(request); }
    };
    using request = std::unique_ptr<PGcancel, freer>;

    /// Returns at once. The request is dropped if too many are queued; then the server's own limits
    /// (`lock_timeout`) end the work.
    void start(request cancellation) noexcept;

    /// Waits until all requests are sent, for `grace` at most.
    void finish(std::chrono::milliseconds grace);

  private:
    struct state;
    static void run(state& shared) noexcept;

    /// Shared with the threads, which are never joined, because PQcancel may take minutes.
    const std::shared_ptr<state> state_;
};

}  // namespace syncguard::postgres
