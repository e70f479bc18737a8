/// Benchmarks with a verdict: figures of one run, compared with bars.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace syncguard::bench {

/// Nanoseconds per iteration of each benchmark, by name: the median of its repetitions.
using medians = std::map<std::string, double>;

/// Something that must hold of the figures.
struct bar {
    std::string what;
    std::function<double(const medians&)> figure;
    double limit;
    enum class direction { at_least, at_most } must_be;
    std::string unit;
};

/// Runs all registered benchmarks, interleaved and repeated, prints them and the bars; returns the
/// exit code of the program: 0 if every bar is met.
int run_and_judge(int argc, char** argv, const std::vector<bar>& bars);

}  // namespace syncguard::bench
