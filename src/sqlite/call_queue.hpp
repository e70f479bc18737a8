/// Asynchronous calls: runs blocking calls on three threads of its own.
#pragma once

#include "util/background_thread.hpp"
#include "util/timer_thread.hpp"

#include <syncguard/engine.hpp>

namespace syncguard::sqlite {

class call_queue {
  public:
    call_queue();

    /// Runs `target.execute(req, limits)` on a thread of the queue and passes the result to
    /// `handler`. If a call is cancelled or its deadline passes while it is queued, it completes at
    /// once.
    void post(engine& target, const request& req, const call_limits& limits,
              completion handler) noexcept;

  private:
    [[nodiscard]] background_thread& thread_of(const request& req) noexcept;

    timer_thread deadlines_;
    // Extensions and releases have their own threads, because other calls may occupy a thread until
    // their deadlines.
    background_thread extensions_;
    /// Unlimited: if a release were refused, its lock would stay until the TTL ends.
    background_thread releases_;
    background_thread others_;
};

}  // namespace syncguard::sqlite
