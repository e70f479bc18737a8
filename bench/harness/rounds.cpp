#include "harness/rounds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace syncguard::bench {

namespace {

double median_of(std::vector<double> figures) {
    const auto middle = figures.begin() + static_cast<std::ptrdiff_t>(figures.size() / 2);
    std::nth_element(figures.begin(), middle, figures.end());
    return *middle;
}

}  // namespace

std::string ratio(const std::string& one, const std::string& other) {
    return one + " / " + other;
}

medians take_turns(const std::vector<contestant>& contestants, int rounds,
                   const std::string& unit) {
    std::vector<std::vector<double>> figures(contestants.size());
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < contestants.size(); ++i) {
            // Each round begins with another contestant, so that none always follows the load of
            // the same one.
            const auto turn = (i + static_cast<std::size_t>(round)) % contestants.size();
            figures[turn].push_back(contestants[turn].round());
        }
    }
    medians result;
    std::printf("\n%-42s %14s %14s %14s\n", unit.c_str(), "median", "least", "most");
    for (std::size_t i = 0; i < contestants.size(); ++i) {
        const auto [least, most] = std::minmax_element(figures[i].begin(), figures[i].end());
        const double median = median_of(figures[i]);
        std::printf("%-42s %14.0f %14.0f %14.0f\n", contestants[i].name.c_str(), median, *least,
                    *most);
        result[contestants[i].name] = median;
    }
    for (std::size_t one = 0; one < contestants.size(); ++one) {
        for (std::size_t other = 0; other < contestants.size(); ++other) {
            std::vector<double> ratios;
            for (std::size_t round = 0; round < figures[one].size(); ++round)
                ratios.push_back(figures[one][round] / figures[other][round]);
            result[ratio(contestants[one].name, contestants[other].name)] = median_of(ratios);
        }
    }
    return result;
}

}  // namespace syncguard::bench
