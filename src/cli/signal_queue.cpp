#include "cli/signal_queue.hpp"

#include <sys/signalfd.h>

namespace syncguard::cli {

namespace {

sigset_t collected_signals() noexcept {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : passed_on_signals)
        sigaddset(&set, signal);
    sigaddset(&set, SIGCHLD);
    return set;
}

file_descriptor open_signal_fd() {
    const sigset_t collected = collected_signals();
    return {::signalfd(-1, &collected, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd"};
}

}  // namespace

signal_queue::signal_queue() : signal_fd_(open_signal_fd()) {
    sigemptyset(&inherited_as_ignored_);
    for (const int signal : passed_on_signals) {
        struct sigaction action {};
        ::sigaction(signal, nullptr, &action);
        if (action.sa_handler == SIG_IGN) sigaddset(&inherited_as_ignored_, signal);
    }

    // If SIGCHLD is ignored, the kernel discards the exit codes of children.
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &by_default, &inherited_on_child_);

    const sigset_t collected = collected_signals();
    ::pthread_sigmask(SIG_BLOCK, &collected, &inherited_mask_);
}

std::optional<arrived_signal> signal_queue::take() const {
    signalfd_siginfo info{};
    const auto got = ::read(signal_fd_.get(), &info, sizeof info);
    if (got != static_cast<ssize_t>(sizeof info)) return std::nullopt;
    return arrived_signal{.number = static_cast<int>(info.ssi_signo),
                          .from_kernel = info.ssi_code == SI_KERNEL};
}

bool signal_queue::inherited_as_ignored(int signal) const noexcept {
    return sigismember(&inherited_as_ignored_, signal) == 1;
}

void signal_queue::restore_inherited() const noexcept {
    // The dispositions of other signals were never changed.
    ::sigaction(SIGCHLD, &inherited_on_child_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &inherited_mask_, nullptr);
}

}  // namespace syncguard::cli
