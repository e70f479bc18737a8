/// A function under a lock, with retries and renewal.
// [lock]
#include <syncguard/connect.hpp>
#include <syncguard/lock.hpp>

#include <iostream>

using namespace std::chrono_literals;

int write_report(std::stop_token lost) {
    int written = 0;
    while (!lost.stop_requested() && written < 1000)
        written += 100;  // one step at a time
    return written;
}

int main() {
    auto locks = syncguard::connect("memory:");

    try {
        const int rows =
            syncguard::lock(locks, "nightly-report",
                            [](syncguard::held& held) { return write_report(held.stop_token()); },
                            {.ttl = 30s, .timeout = 5s, .auto_extend = true});
        std::cout << rows << " rows written\n";
    } catch (const syncguard::lock_lost& lost) {
        std::cerr << "the report may be incomplete: " << lost.what() << "\n";
        return 1;
    } catch (const syncguard::lock_error& error) {
        std::cerr << to_string(error.code()) << ": " << error.what() << "\n";
        return 1;
    }
}
// [lock]
