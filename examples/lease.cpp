/// One attempt, and a lease that releases itself.
// [lease]
#include <syncguard/connect.hpp>

#include <iostream>

using namespace std::chrono_literals;

void charge(const syncguard::fence& fence) {
    std::cout << "charged under fence " << fence << "\n";
}

int main() {
    auto locks = syncguard::connect("memory:");  // or "sqlite:", shared by all processes of a host

    if (auto lease = locks.acquire("payment:42", {.ttl = 30s})) {
        charge(lease->fence());  // the resource refuses a fence smaller than one it has seen
    } else {
        std::cout << "another holder is charging it\n";
    }  // released here
}
// [lease]
