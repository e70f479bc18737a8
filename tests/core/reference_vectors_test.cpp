/// The reference values that all SyncGuard implementations share.
#include "support/expect_error.hpp"

#include <syncguard/fence.hpp>
#include <syncguard/key.hpp>
#include <syncguard/lock_id.hpp>

#include <boost/json.hpp>

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace syncguard::test {
namespace {

namespace json = boost::json;

const json::object& vectors() {
    static const json::value loaded = [] {
        std::ifstream file(SYNCGUARD_TEST_DATA "/reference_vectors.json");
        const std::string text(std::istreambuf_iterator<char>(file), {});
        return json::parse(text);
    }();
    return loaded.as_object();
}

std::string from_hex(const json::value& hex) {
    const std::string_view digits = hex.as_string();
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        unsigned byte = 0;
        std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
        bytes.push_back(static_cast<char>(byte));
    }
    return bytes;
}

TEST(reference_vectors, keys_are_normalised_checked_and_hashed_as_in_all_implementations) {
    const auto& cases = vectors().at("keys").as_array();
    ASSERT_EQ(cases.size(), 300U);
    for (const auto& value : cases) {
        const auto& entry = value.as_object();
        const std::string key = from_hex(entry.at("key_utf8_hex"));
        if (entry.at("valid").as_bool()) {
            EXPECT_EQ(normalize_and_validate_key(key), from_hex(entry.at("nfc_utf8_hex")));
        } else {
            expect_error(error_code::invalid_argument,
                         [&] { (void)normalize_and_validate_key(key); });
        }
        EXPECT_EQ(hash_key(key), std::string_view(entry.at("hash").as_string()));
    }
}

TEST(reference_vectors, storage_keys_and_fence_keys_are_made_as_in_all_implementations) {
    const auto& cases = vectors().at("storage_keys").as_array();
    ASSERT_EQ(cases.size(), 300U);
    for (const auto& value : cases) {
        const auto& entry = value.as_object();
        const std::string prefix = from_hex(entry.at("prefix_utf8_hex"));
        const std::string key = from_hex(entry.at("key_utf8_hex"));
        const storage_key_budget budget{entry.at("limit").to_number<std::size_t>(),
                                        entry.at("reserve").to_number<std::size_t>()};
        const auto make_both = [&] {
            const std::string storage_key = make_storage_key(prefix, key, budget);
            return std::pair(storage_key, make_fence_key(prefix, storage_key, budget));
        };
        if (entry.at("error").is_null()) {
            const auto [storage_key, fence_key] = make_both();
            EXPECT_EQ(storage_key, from_hex(entry.at("storage_key_utf8_hex")));
            EXPECT_EQ(fence_key, from_hex(entry.at("fence_key_utf8_hex")));
        } else {
            EXPECT_EQ(entry.at("error").as_string(), "InvalidArgument");
            expect_error(error_code::invalid_argument, [&] { (void)make_both(); });
        }
    }
}

TEST(reference_vectors, lock_ids_are_recognised_as_in_all_implementations) {
    const auto& cases = vectors().at("lock_ids").as_array();
    ASSERT_EQ(cases.size(), 11U);
    for (const auto& value : cases) {
        const auto& entry = value.as_object();
        const std::string id = from_hex(entry.at("lock_id_utf8_hex"));
        EXPECT_EQ(lock_id::is_valid(id), entry.at("valid").as_bool()) << id;
        if (entry.at("valid").as_bool()) {
            EXPECT_EQ(lock_id::parse(id).str(), id);
            EXPECT_NO_THROW(validate_lock_id(id));
        } else {
            expect_error(error_code::invalid_argument, [&] { (void)lock_id::parse(id); });
            expect_error(error_code::invalid_argument, [&] { validate_lock_id(id); });
        }
    }
}

TEST(reference_vectors, fences_are_written_as_in_all_implementations) {
    const auto& cases = vectors().at("fences").as_array();
    ASSERT_EQ(cases.size(), 6U);
    for (const auto& value : cases) {
        const auto& entry = value.as_object();
        const std::string_view text = entry.at("text").as_string();
        EXPECT_EQ(fence::from_counter(entry.at("value").to_number<std::uint64_t>()).str(), text);
        ASSERT_TRUE(fence::parse(text));
        EXPECT_EQ(fence::parse(text)->str(), text);
    }
}

}  // namespace
}  // namespace syncguard::test
