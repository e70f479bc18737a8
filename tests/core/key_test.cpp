#include "support/expect_error.hpp"

#include <syncguard/key.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

TEST(keys, the_limit_counts_bytes_of_the_normal_form) {
    // Three jamo of three bytes each become one syllable of three bytes.
    std::string decomposed;
    for (int i = 0; i < 170; ++i)
        decomposed += "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8";
    EXPECT_EQ(normalize_and_validate_key(decomposed).size(), 510U);
}

TEST(keys, very_long_ones_are_refused_without_being_normalised) {
    const std::string enormous(64'000'000, 'x');
    expect_error(error_code::invalid_argument, [&] { (void)normalize_and_validate_key(enormous); });
}

TEST(keys, nul_is_an_ordinary_character) {
    using namespace std::string_literals;
    EXPECT_EQ(normalize_and_validate_key("a\0b"s), "a\0b"s);
    EXPECT_NE(hash_key("a\0b"s), hash_key("a\0c"s));
}

// Normal form.

void append_utf8(std::string& out, unsigned code_point) {
    const auto put = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) return put(code_point);
    if (code_point < 0x800) {
        put(0xC0U | code_point >> 6U);
    } else {
        if (code_point < 0x10000) {
            put(0xE0U | code_point >> 12U);
        } else {
            put(0xF0U | code_point >> 18U);
            put(0x80U | (code_point >> 12U & 0x3FU));
        }
        put(0x80U | (code_point >> 6U & 0x3FU));
    }
    put(0x80U | (code_point & 0x3FU));
}

/// Code points in hexadecimal, with blanks between them.
std::string from_code_points(const std::string& list) {
    std::istringstream in(list);
    std::string text;
    for (unsigned code_point = 0; in >> std::hex >> code_point;)
        append_utf8(text, code_point);
    return text;
}

/// The lines of Unicode's NormalizationTest.txt, without comments.
std::vector<std::string> conformance_test() {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(
        popen("python3 -c 'import bz2, shutil, sys; shutil.copyfileobj("
              "bz2.open(\"/usr/share/unicode/NormalizationTest.txt.bz2\"), sys.stdout.buffer)'",
              "r"),
        &pclose);
    std::string text;
    char block[4096];
    while (const auto count = std::fread(block, 1, sizeof block, file.get()))
        text.append(block, count);
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        if (!line.empty() && line.front() != '#') lines.push_back(line);
    }
    return lines;
}

TEST(normal_form, is_nfc_by_the_conformance_test_of_unicode) {
    const auto lines = conformance_test();
    ASSERT_GT(lines.size(), 18'000U) << "it comes with Debian's unicode-data: tools/setup test";
    std::set<std::string> listed;
    bool part_1 = false;
    for (const auto& line : lines) {
        if (line.front() == '@') {
            part_1 = line.starts_with("@Part1");
            continue;
        }
        std::vector<std::string> columns;
        std::istringstream in(line);
        for (std::string column; columns.size() < 5 && std::getline(in, column, ';');)
            columns.push_back(from_code_points(column));
        ASSERT_EQ(columns.size(), 5U) << line;
        for (const std::size_t i : {0U, 1U, 2U})
            EXPECT_EQ(normalize_and_validate_key(columns[i]), columns[1]) << line;
        for (const std::size_t i : {3U, 4U})
            EXPECT_EQ(normalize_and_validate_key(columns[i]), columns[3]) << line;
        if (part_1) listed.insert(columns[0]);
    }
    // All characters that Part 1 does not list are normalised already.
    for (unsigned code_point = 1; code_point <= 0x10FFFF; ++code_point) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
        std::string text;
        append_utf8(text, code_point);
        if (!listed.contains(text)) {
            EXPECT_EQ(normalize_and_validate_key(text), text) << std::hex << code_point;
        }
    }
}

TEST(normal_form, agrees_with_icu) {
    std::ifstream file(SYNCGUARD_TEST_DATA "/nfc_by_icu.txt");
    int count = 0;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line.front() == '#') continue;
        const auto separator = line.find(';');
        const auto text = from_code_points(line.substr(0, separator));
        const auto expected = from_code_points(line.substr(separator + 1));
        EXPECT_EQ(normalize_and_validate_key(text), expected) << line;
        ++count;
    }
    EXPECT_GE(count, 300);
}

TEST(normal_form, u_11a7_composes_with_nothing_and_hides_no_invalid_byte) {
    const std::string syllable = "\uAC00";
    const std::string inert = "\u11A7";
    EXPECT_EQ(normalize_and_validate_key(syllable + inert), syllable + inert);
    EXPECT_NE(hash_key(syllable + inert), hash_key(syllable));
    EXPECT_EQ(normalize_and_validate_key(inert + inert + "e\u0301" + inert),
              inert + inert + "\u00E9" + inert);
    for (const std::string& text : {"\xE1" + inert, inert + "\x80", inert + "\xE1\x86"}) {
        expect_error(error_code::invalid_argument, [&] { (void)normalize_and_validate_key(text); });
    }
}

}  // namespace
}  // namespace syncguard::test
