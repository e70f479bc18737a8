/// Benchmarks that pass or fail: compares the figures of a run with bars.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace syncguard::bench {

/// Figures by name. That of a benchmark is the median of its repetitions, in nanoseconds per
/// iteration.
using medians = std::map<std::string, double>;

/// A condition that the figures must meet.
struct bar {
    std::string title;
    std::function<double(const medians&)> figure;
    double limit;
    enum class direction { at_least, at_most } must_be;
    std::string unit;
};

/// Runs all registered benchmarks, interleaved and repeated, and prints them and the bars. The
/// figures of `measure_more` are added to those of the benchmarks. Returns the exit code of the
/// program: 0 if every bar is met.
int run_and_judge(int argc, char** argv, const std::vector<bar>& bars,
                  const std::function<medians()>& measure_more = {});

/// The same for figures that were measured without Google Benchmark.
int judge(const medians& figures, const std::vector<bar>& bars);

}  // namespace syncguard::bench
