#include "library_thread.hpp"

#include <pthread.h>

namespace syncguard {

signals_blocked::signals_blocked() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
        ::sigdelset(&blocked, fault);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
}

signals_blocked::~signals_blocked() {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void name_this_thread(const char* name) noexcept {
    ::pthread_setname_np(::pthread_self(), name);
}

}  // namespace syncguard
