/// The stored documents.
#include "firestore/on_firestore.hpp"
#include "support/expect_error.hpp"

#include <syncguard/diagnostics.hpp>
#include <syncguard/lock_id.hpp>

namespace syncguard::test {
namespace {

namespace json = boost::json;

class firestore_storage : public on_firestore {};

TEST_F(firestore_storage, a_grant_writes_the_two_documents_as_specified_and_nothing_else) {
    const auto locks = open();
    const auto id = locks.acquire("resource:123", {.ttl = 30s})->detach();

    const auto lock_documents = project_->all("locks");
    ASSERT_EQ(lock_documents.size(), 1U);
    EXPECT_EQ(lock_documents.at("resource:123"),
              json::parse(R"({"lockId":{"stringValue":")" + id.to_string() +
                          R"("},"expiresAtMs":{"integerValue":"1700000030000"},)"
                          R"("acquiredAtMs":{"integerValue":"1700000000000"},)"
                          R"("key":{"stringValue":"resource:123"},)"
                          R"("fence":{"stringValue":"000000000000001"}})"));
    const auto counters = project_->all("fence_counters");
    ASSERT_EQ(counters.size(), 1U);
    EXPECT_EQ(counters.at("fence:resource:123"),
              json::parse(R"({"fence":{"stringValue":"000000000000001"},)"
                          R"("keyDebug":{"stringValue":"resource:123"}})"));
}

TEST_F(firestore_storage, a_release_removes_the_lock_and_leaves_the_counter) {
    const auto locks = open();
    const auto id = locks.acquire("k")->detach();
    const auto counter = project_->fields("fence_counters", "fence:k");
    EXPECT_TRUE(locks.release(id).ok);
    EXPECT_TRUE(project_->all("locks").empty());
    EXPECT_EQ(project_->fields("fence_counters", "fence:k"), counter);
}

TEST_F(firestore_storage, an_extension_changes_the_expiry_and_nothing_else) {
    const auto id = lock_id::generate();
    auto fields = json::parse(lock_fields(id.to_string(), clock_.now() + 10s, "k")).as_object();
    fields["someone's"] = json::object{{"stringValue", "kept"}};
    project_->put("locks", "k", json::serialize(fields));

    ASSERT_TRUE(open().extend(id, {.ttl = 60s}).ok);
    fields["expiresAtMs"] = json::object{{"integerValue", "1700000060000"}};
    EXPECT_EQ(project_->fields("locks", "k"), json::value(fields));
}

TEST_F(firestore_storage, keys_that_cannot_be_document_ids_are_hashed) {
    const auto locks = open();
    for (const char* const key : {"a/b", ".", "..", "__reserved__", "____"}) {
        const auto id = locks.acquire(key)->detach();
        const auto documents = project_->all("locks");
        ASSERT_EQ(documents.size(), 1U) << key;
        EXPECT_TRUE(lock_id::is_valid(documents.begin()->first)) << documents.begin()->first;
        EXPECT_EQ(documents.begin()->second.at("key").at("stringValue").as_string(), key);
        EXPECT_TRUE(project_->fields("fence_counters", "fence:" + documents.begin()->first));
        EXPECT_TRUE(locks.is_locked(key));
        EXPECT_TRUE(locks.release(id).ok) << key;
    }
}

TEST_F(firestore_storage, other_keys_are_document_ids_as_they_are) {
    const auto locks = open();
    for (const std::string key : {"__", "___", "a b?c#d%2F", "\xC3\xA9\xE6\xBC\xA2", "...",
                                  "quote\"back\\slash", "fence:k", "id:x"}) {
        const auto id = locks.acquire(key)->detach();
        EXPECT_TRUE(project_->fields("locks", key)) << key;
        EXPECT_TRUE(project_->fields("fence_counters", "fence:" + key)) << key;
        EXPECT_TRUE(open().release(id).ok) << key;
    }
}

TEST_F(firestore_storage, configured_collections_and_databases_are_used) {
    const auto locks = open({.locks_collection = "my locks", .fence_counters_collection = "mine"});
    const auto id = locks.acquire("k")->detach();
    EXPECT_TRUE(project_->fields("my locks", "k"));
    EXPECT_TRUE(project_->fields("mine", "fence:k"));
    EXPECT_TRUE(project_->all("locks").empty());
    EXPECT_FALSE(open().is_locked("k"));
    EXPECT_FALSE(open({.database = "other"}).is_locked("k"));
    EXPECT_TRUE(
        open({.locks_collection = "my locks", .fence_counters_collection = "mine"}).release(id).ok);
}

TEST_F(firestore_storage, times_are_read_as_integers_and_as_doubles) {
    const auto id = lock_id::generate();
    project_->put("locks", "k",
                  R"({"lockId":{"stringValue":")" + id.to_string() +
                      R"("},"expiresAtMs":{"doubleValue":1700000010000.0},)"
                      R"("acquiredAtMs":{"doubleValue":1.7e12},"key":{"stringValue":"k"},)"
                      R"("fence":{"stringValue":"000000000000007"}})");
    const auto locks = open();
    const auto found = get_by_key(locks, "k");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->expires_at, clock_.now() + 10s);
    EXPECT_EQ(found->acquired_at, clock_.now());
    EXPECT_FALSE(locks.acquire("k"));
    EXPECT_TRUE(locks.extend(id, {.ttl = 20s}).ok);
    EXPECT_TRUE(locks.release(id).ok);
}

TEST_F(firestore_storage, fences_continue_after_the_expired_lock_if_the_counter_is_missing) {
    project_->put(
        "locks", "k",
        lock_fields(lock_id::generate().to_string(), clock_.now() - 10s, "k", "000000000000041"));
    auto lease = open().acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000042");
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(firestore_storage, foreign_documents_are_refused_and_not_changed) {
    const auto locks = open();
    const char* const foreign = R"({"price":{"integerValue":"12"}})";
    project_->put("locks", "foreign-lock", foreign);
    project_->put("fence_counters", "fence:foreign-counter", foreign);
    for (const char* const key : {"foreign-lock", "foreign-counter"}) {
        const auto failure =
            expect_error(error_code::invalid_argument, [&] { (void)locks.acquire(key); });
        ASSERT_TRUE(failure);
        EXPECT_EQ(std::string(failure->what()).find(key), std::string::npos);
    }
    EXPECT_EQ(project_->fields("locks", "foreign-lock"), json::parse(foreign));
    EXPECT_EQ(project_->fields("fence_counters", "fence:foreign-counter"), json::parse(foreign));
    EXPECT_FALSE(project_->fields("locks", "foreign-counter"));
}

TEST_F(firestore_storage, a_locked_key_reports_how_long_it_can_stay_locked) {
    const auto locks = open();
    const auto held = locks.acquire("k", {.ttl = 30s});
    clock_.advance(10s);
    const auto store = detail::access::core(locks).backing_engine();
    const auto answer =
        store->execute(acquire_request{.key = "k",
                                       .id = lock_id::generate(),
                                       .ttl = 1s,
                                       .wait_until = std::chrono::steady_clock::now() + 1h},
                       {.deadline = std::chrono::steady_clock::now() + 20s, .stop = {}});
    EXPECT_FALSE(answer.ok);
    EXPECT_EQ(answer.free_within, 20s + time_tolerance);
}

TEST_F(firestore_storage, the_clients_clock_is_the_authority) {
    EXPECT_EQ(open().capabilities().time_authority, time_authority::client);
    EXPECT_EQ(open().capabilities().backend, "firestore");
}

}  // namespace
}  // namespace syncguard::test
