/// The seed of a randomised test: printed, and read from the environment to repeat a run.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace syncguard::test {

/// SYNCGUARD_TEST_SEED if it is set, otherwise random.
[[nodiscard]] inline std::uint64_t test_seed() {
    const char* const given = std::getenv("SYNCGUARD_TEST_SEED");
    const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
    std::cout << "SYNCGUARD_TEST_SEED=" << seed << std::endl;
    return seed;
}

}  // namespace syncguard::test
