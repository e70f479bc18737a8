/// An event for every operation, without keys or lock ids.
// [telemetry]
#include <syncguard/connect.hpp>
#include <syncguard/telemetry.hpp>

#include <iostream>

int main() {
    const auto locks = syncguard::with_telemetry(
        syncguard::connect("memory:"), {.on_event = [](const syncguard::lock_event& event) {
            std::cout << to_string(event.type) << (event.ok ? " ok" : " fail");
            if (event.reason) std::cout << " (" << to_string(*event.reason) << ")";
            std::cout << "\n";
        }});

    auto first = locks.acquire("k");
    auto second = locks.acquire("k");  // acquire fail (locked)
}
// [telemetry]
