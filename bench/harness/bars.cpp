#include "harness/bars.hpp"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <utility>

namespace syncguard::bench {

namespace {

/// Prints the usual table, but only medians, and keeps them for the bars.
class collecting_reporter : public benchmark::ConsoleReporter {
  public:
    collecting_reporter() : ConsoleReporter(OO_None) {}

    void ReportRuns(const std::vector<Run>& runs) override {
        std::vector<Run> shown;
        for (const auto& run : runs) {
            if (run.aggregate_name != "median") continue;
            shown.push_back(run);
            medians_[run.run_name.function_name] = run.GetAdjustedRealTime();
        }
        if (!shown.empty()) ConsoleReporter::ReportRuns(shown);
    }
    [[nodiscard]] const medians& figures() const noexcept { return medians_; }

  private:
    medians medians_;
};

}  // namespace

int run_and_judge(int argc, char** argv, const std::vector<bar>& bars,
                  const std::function<medians()>& measure_more) {
    std::vector<char*> arguments(argv, argv + argc);
    // Interleaved, so that compared benchmarks are measured under the same conditions.
    std::vector<std::string> defaults = {"--benchmark_enable_random_interleaving=true",
                                         "--benchmark_repetitions=9", "--benchmark_min_time=0.1",
                                         "--benchmark_report_aggregates_only=true"};
    for (auto& option : defaults)
        arguments.insert(arguments.begin() + 1, option.data());
    int count = static_cast<int>(arguments.size());
    benchmark::Initialize(&count, arguments.data());
    collecting_reporter reporter;
    benchmark::RunSpecifiedBenchmarks(&reporter);
    medians figures = reporter.figures();
    if (measure_more) figures.merge(measure_more());
    return judge(figures, bars);
}

int judge(const medians& figures, const std::vector<bar>& bars) {
    bool all_met = true;
    std::printf("\n");
    for (const auto& bar : bars) {
        const double figure = bar.figure(figures);
        const bool at_least = bar.must_be == bar::direction::at_least;
        const bool met = at_least ? figure >= bar.limit : figure <= bar.limit;
        all_met = all_met && met;
        std::printf("%s  %s: %.4g %s (bar: %s %.4g)\n", met ? "met   " : "MISSED",
                    bar.title.c_str(), figure, bar.unit.c_str(), at_least ? "at least" : "at most",
                    bar.limit);
    }
    return all_met ? 0 : 1;
}

}  // namespace syncguard::bench
