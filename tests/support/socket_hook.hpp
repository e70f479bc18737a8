/// Lets a test act at the moment when a socket has been created and its creator does not know its
/// number yet.
#pragma once

#include <functional>

namespace syncguard::test {

/// Runs an action each time this process creates a socket, on the thread that creates it, until
/// destroyed. Only one hook may exist at a time.
class socket_hook {
  public:
    explicit socket_hook(std::function<void()> on_created);
    socket_hook(const socket_hook&) = delete;
    socket_hook& operator=(const socket_hook&) = delete;
    ~socket_hook();
};

}  // namespace syncguard::test
