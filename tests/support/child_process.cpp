#include "support/child_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>

namespace syncguard::test {

child_process::child_process(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ > 0) return;
    int code = 99;
    try {
        code = body();
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "child process: %s\n", failure.what());
    }
    // No exit handlers: they would destroy the parent's objects.
    ::_exit(code);
}

child_process::~child_process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
}

void child_process::kill(int signal) const {
    ::kill(pid_, signal);
}

void child_process::stop() const {
    kill(SIGSTOP);
    int status = 0;
    while (::waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
    }
    if (!WIFSTOPPED(status)) throw std::runtime_error("the child ended instead of stopping");
}

int child_process::wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace syncguard::test
