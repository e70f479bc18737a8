#include "support/expect_error.hpp"

#include <syncguard/key.hpp>

#include <string>

namespace syncguard::test {
namespace {

TEST(keys, the_limit_counts_bytes_of_the_normal_form) {
    // Three jamo of three bytes each become one syllable of three bytes.
    std::string decomposed;
    for (int i = 0; i < 170; ++i)
        decomposed += "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8";
    EXPECT_EQ(normalize_and_validate_key(decomposed).size(), 510U);
}

TEST(keys, enormous_ones_are_refused_without_being_normalised) {
    const std::string enormous(64'000'000, 'x');
    expect_error(error_code::invalid_argument, [&] { (void)normalize_and_validate_key(enormous); });
}

TEST(keys, nul_is_a_character_like_others) {
    using namespace std::string_literals;
    EXPECT_EQ(normalize_and_validate_key("a\0b"s), "a\0b"s);
    EXPECT_NE(hash_key("a\0b"s), hash_key("a\0c"s));
}

}  // namespace
}  // namespace syncguard::test
