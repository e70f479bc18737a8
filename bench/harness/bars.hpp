/// Benchmarks with a verdict: figures of one run, compared with bars.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace syncguard::bench {

/// Figures by name. Of a benchmark: nanoseconds per iteration, the median of its repetitions.
using medians = std::map<std::string, double>;

/// Something that must hold of the figures.
struct bar {
    std::string title;
    std::function<double(const medians&)> figure;
    double limit;
    enum class direction { at_least, at_most } must_be;
    std::string unit;
};

/// Runs all registered benchmarks, interleaved and repeated, prints them and the bars; returns the
/// exit code of the program: 0 if every bar is met. The figures of `measure_more` join those of the
/// benchmarks.
int run_and_judge(int argc, char** argv, const std::vector<bar>& bars,
                  const std::function<medians()>& measure_more = {});

/// The same for figures that were measured without Google Benchmark.
int judge(const medians& figures, const std::vector<bar>& bars);

}  // namespace syncguard::bench
