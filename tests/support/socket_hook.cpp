#include "support/socket_hook.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace syncguard::test {

namespace {

std::mutex mutex;
std::function<void()> action;

std::function<void()> current_action() {
    const std::lock_guard guard(mutex);
    return action;
}

void set_action(std::function<void()> next) {
    const std::lock_guard guard(mutex);
    action.swap(next);
}

}  // namespace

socket_hook::socket_hook(std::function<void()> on_created) {
    set_action(std::move(on_created));
}

socket_hook::~socket_hook() {
    set_action(nullptr);
}

}  // namespace syncguard::test

/// Replaces the function of the C library, also for libraries that this program uses.
extern "C" int socket(int domain, int type, int protocol) noexcept {
    const auto created = static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
    if (const auto on_created = syncguard::test::current_action()) on_created();
    return created;
}
