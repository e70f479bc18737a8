/// A program that uses only the installed SyncGuard.
#include <syncguard/async.hpp>
#include <syncguard/connect.hpp>
#include <syncguard/lock.hpp>

#include <iostream>

int main() {
    const auto locks = syncguard::connect("memory:");
    syncguard::lock(locks, "k",
                    [](syncguard::held& held) { std::cout << "fence " << held.fence() << "\n"; });
}
