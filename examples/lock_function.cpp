/// A function under a lock, with retries.
// [lock]
#include <syncguard/connect.hpp>
#include <syncguard/lock.hpp>

#include <iostream>

using namespace std::chrono_literals;

int main() {
    auto locks = syncguard::connect("memory:");

    try {
        const int rows = syncguard::lock(locks, "nightly-report",
                                         [](syncguard::held& held) {
                                             int written = 0;
                                             while (held.valid() && written < 1000)
                                                 written += 100;  // one step at a time
                                             return written;
                                         },
                                         {.ttl = 30s, .timeout = 5s});
        std::cout << rows << " rows written\n";
    } catch (const syncguard::lock_error& error) {
        std::cerr << to_string(error.code()) << ": " << error.what() << "\n";
        return 1;
    }
}
// [lock]
