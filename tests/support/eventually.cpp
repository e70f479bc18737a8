#include "support/eventually.hpp"

#include <thread>

namespace syncguard::test {

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
    const auto give_up_at = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > give_up_at) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace syncguard::test
