/// A command for `run` that reports which signals reach it: prints `ready PID`, then the number of
/// each signal on a line of its own. At the signal named by its argument it ends with exit code 0.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

int main(int count, char** arguments) {
    const int last = count > 1 ? std::atoi(arguments[1]) : SIGTERM;
    sigset_t awaited;
    sigemptyset(&awaited);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
        sigaddset(&awaited, signal);
    sigprocmask(SIG_BLOCK, &awaited, nullptr);
    std::cout << "ready " << ::getpid() << std::endl;
    for (int signal = 0; signal != last;) {
        signal = ::sigwaitinfo(&awaited, nullptr);
        std::cout << signal << std::endl;
    }
}
