#include "owned_thread.hpp"

#include "fork_generation.hpp"

namespace syncguard {

owned_thread::owned_thread() : process_(fork_generation()) {}

bool owned_thread::is_left_behind() const noexcept {
    return process_ != fork_generation();
}

void owned_thread::end() {
    if (!thread_.joinable()) return;
    if (is_left_behind() || thread_.get_id() == std::this_thread::get_id()) {
        thread_.detach();
    } else {
        thread_.join();
    }
}

}  // namespace syncguard
