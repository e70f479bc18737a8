/// Contestants that Google Benchmark cannot run, because they are many threads or other programs.
#pragma once

#include "harness/bars.hpp"

#include <functional>
#include <string>
#include <vector>

namespace syncguard::bench {

struct contestant {
    std::string name;
    /// Runs the contestant for some time; returns its figure.
    std::function<double()> round;
};

/// The name of the ratio of two contestants' figures.
std::string ratio(const std::string& one, const std::string& other);

/// Runs the contestants in turn, so that disturbances of the machine affect all of them. Prints a
/// table. Returns the median of each contestant, and for any two of them the median of their ratios
/// in the same round, because a machine that is slow in some rounds is slow for both.
medians take_turns(const std::vector<contestant>& contestants, int rounds, const std::string& unit);

}  // namespace syncguard::bench
