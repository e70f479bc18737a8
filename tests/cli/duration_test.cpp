/// Notation of durations on the command line.
#include "cli/duration.hpp"

#include <gtest/gtest.h>

namespace syncguard::cli {

namespace {

using namespace std::chrono_literals;

std::string complaint(milliseconds (*parse)(std::string_view), std::string_view text) {
    try {
        (void)parse(text);
    } catch (const bad_duration& problem) {
        return problem.what();
    }
    return "none";
}

TEST(duration, reads_every_unit) {
    EXPECT_EQ(500ms, parse_duration("500ms"));
    EXPECT_EQ(30s, parse_duration("30s"));
    EXPECT_EQ(5min, parse_duration("5m"));
    EXPECT_EQ(2h, parse_duration("2h"));
}

TEST(duration, refuses_a_bare_number_and_suggests_units) {
    EXPECT_EQ("'30' has no unit: did you mean 30s or 30ms?", complaint(&parse_duration, "30"));
}

TEST(duration, refuses_text_that_is_no_duration) {
    for (const auto* text : {"", "s", "abc", "1.5s", "-1s", "0s", "1d", "1 s", "1sec", "+1s", " 1s",
                             "99999999999999999999s", "9223372036854775807h"}) {
        EXPECT_NE("none", complaint(&parse_duration, text)) << text;
    }
}

TEST(duration, reads_fractions_of_seconds_and_rounds_up) {
    EXPECT_EQ(0ms, parse_seconds("0"));
    EXPECT_EQ(5s, parse_seconds("5"));
    EXPECT_EQ(250ms, parse_seconds("0.25"));
    EXPECT_EQ(1ms, parse_seconds("0.0001"));
}

TEST(duration, refuses_text_that_is_no_number_of_seconds) {
    for (const auto* text : {"", "5s", "-1", "nan", "inf", "1e3", "1e400", "99999999999999"}) {
        EXPECT_NE("none", complaint(&parse_seconds, text)) << text;
    }
}

TEST(duration, is_written_in_its_largest_whole_unit) {
    for (const auto* text : {"500ms", "30s", "90s", "5m", "2h"})
        EXPECT_EQ(text, to_text(parse_duration(text)));
}

}  // namespace

}  // namespace syncguard::cli
