/// Contestants that Google Benchmark cannot run, because they are many threads or other programs.
#pragma once

#include "harness/bars.hpp"

#include <functional>
#include <string>
#include <vector>

namespace syncguard::bench {

struct contestant {
    std::string name;
    /// Works for a while; returns the figure.
    std::function<double()> round;
};

/// What the figure of the one for another's is called.
std::string ratio(const std::string& one, const std::string& other);

/// Lets the contestants take turns, so that what disturbs the machine disturbs all. Prints a table,
/// and returns the median of each, and for any two of them that of their ratios in the same round:
/// a machine that is slow for some rounds is so for both.
medians take_turns(const std::vector<contestant>& contestants, int rounds, const std::string& unit);

}  // namespace syncguard::bench
