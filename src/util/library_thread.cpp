#include "util/library_thread.hpp"

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

bool signals_blocked::any_pending() const noexcept {
    sigset_t pending;
    ::sigpending(&pending);
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
        if (::sigismember(&pending, signal) == 1 && ::sigismember(&before_, signal) == 0) {
            return true;
        }
    }
    return false;
}

void signals_blocked::receive_pending() const noexcept {
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, &before_, &blocked);
    ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

void name_this_thread(const char* name) noexcept {
    ::pthread_setname_np(::pthread_self(), name);
}

inherited_thread_name::inherited_thread_name(const char* name) noexcept {
    ::pthread_getname_np(::pthread_self(), before_.data(), before_.size());
    name_this_thread(name);
}

inherited_thread_name::~inherited_thread_name() {
    name_this_thread(before_.data());
}

}  // namespace syncguard
