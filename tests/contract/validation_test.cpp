/// Bad arguments and cancelled calls fail before a request reaches the store.
#include "contract/contract.hpp"
#include "support/counting_engine.hpp"
#include "support/expect_error.hpp"

#include <set>

namespace syncguard::test {
namespace {

SYNCGUARD_CONTRACT(validation);

/// A handle that counts the requests that reach the engine.
struct watched {
    explicit watched(const any_backend& backend)
        : engine(std::make_shared<counting_engine>(detail::access::core(backend).backing_engine())),
          locks(engine) {}
    std::shared_ptr<counting_engine> engine;
    any_backend locks;
};

TEST_P(validation, invalid_keys_are_refused_before_any_io) {
    watched watch(locks_);
    for (const std::string& key :
         {std::string(), std::string(513, 'x'), std::string("\xFF\xFE"), std::string("\xC0\xAF"),
          std::string("\xED\xA0\x80"), std::string(256, 'x') + std::string("\xC3"),
          std::string(511, 'x') + "\xC3\xA9"}) {
        expect_error(error_code::invalid_argument,
                     [&] { (void)form_->acquire(watch.locks, key, {}, {}); });
        expect_error(error_code::invalid_argument,
                     [&] { (void)form_->is_locked(watch.locks, key, {}); });
        expect_error(error_code::invalid_argument,
                     [&] { (void)form_->lookup(watch.locks, key_lookup{key}, {}); });
    }
    EXPECT_EQ(watch.engine->calls(), 0);
}

TEST_P(validation, malformed_lock_ids_are_refused_before_any_io) {
    watched watch(locks_);
    for (const std::string id : {"", "short", "abcdefghijklmnopqrstuvw", "abcdefghijklmnopqrst+/",
                                 "abcdefghijklmnopqrstu=", "abcdefghijklmnopqrstu\n"}) {
        expect_error(error_code::invalid_argument,
                     [&] { (void)form_->release(watch.locks, id, {}); });
        expect_error(error_code::invalid_argument,
                     [&] { (void)form_->extend(watch.locks, id, {}, {}); });
        expect_error(error_code::invalid_argument,
                     [&] { (void)form_->lookup(watch.locks, ownership_lookup{id}, {}); });
    }
    EXPECT_EQ(watch.engine->calls(), 0);
}

TEST_P(validation, a_ttl_must_be_positive_and_not_absurd) {
    watched watch(locks_);
    for (const milliseconds ttl : {milliseconds{0}, milliseconds{-1}, milliseconds::min(),
                                   max_ttl + milliseconds{1}, milliseconds::max()}) {
        expect_error(error_code::invalid_argument,
                     [&] { (void)form_->acquire(watch.locks, "k", {.ttl = ttl}, {}); });
        expect_error(error_code::invalid_argument, [&] {
            (void)form_->extend(watch.locks, lock_id::generate(), {.ttl = ttl}, {});
        });
    }
    EXPECT_EQ(watch.engine->calls(), 0);
}

class cancelled_before_it_began : public testing::TestWithParam<engine_kind> {
  protected:
    std::unique_ptr<engine_fixture> fixture_ = GetParam().make();
    any_backend locks_ = fixture_->open();
};

SYNCGUARD_RUN_ON_ENGINES(cancelled_before_it_began, all_engines());

TEST_P(cancelled_before_it_began, a_call_never_reaches_the_store) {
    std::stop_source source;
    source.request_stop();
    const auto stop = source.get_token();
    watched watch(locks_);
    const auto id = lock_id::generate();
    expect_error(error_code::aborted, [&] { (void)watch.locks.acquire("k", {}, stop); });
    expect_error(error_code::aborted, [&] { (void)watch.locks.release(id, {}, stop); });
    expect_error(error_code::aborted, [&] { (void)watch.locks.extend(id, {}, stop); });
    expect_error(error_code::aborted, [&] { (void)watch.locks.is_locked("k", {}, stop); });
    expect_error(error_code::aborted, [&] { (void)watch.locks.lookup(key_lookup{"k"}, {}, stop); });
    expect_error(error_code::aborted,
                 [&] { (void)watch.locks.lookup(ownership_lookup{id}, {}, stop); });
    EXPECT_EQ(watch.engine->calls(), 0);
}

TEST_P(validation, errors_carry_key_and_id_apart_from_the_message) {
    fixture_ = std::get<0>(GetParam()).make();
    fixture_->set_fence_counter("private-key", fence::max_counter);
    const any_backend locks = fixture_->open();
    const auto failure = expect_error(error_code::internal,
                                      [&] { (void)form_->acquire(locks, "private-key", {}, {}); });
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->key(), "private-key");
    EXPECT_TRUE(lock_id::is_valid(failure->lock_id()));
    EXPECT_EQ(std::string_view(failure->what()).find("private-key"), std::string_view::npos);
    EXPECT_FALSE(failure->cause());
}

TEST_P(validation, the_longest_key_is_accepted) {
    const std::string key(512, 'x');
    auto lease = acquire(key);
    ASSERT_TRUE(lease);
    EXPECT_TRUE(is_locked(key));
    EXPECT_TRUE(release(lease->lock_id()).ok);
}

TEST_P(validation, keys_of_one_normal_form_are_one_lock) {
    auto lease = acquire("caf\xC3\xA9");
    ASSERT_TRUE(lease);
    EXPECT_FALSE(acquire("cafe\xCC\x81"));
    EXPECT_TRUE(is_locked("cafe\xCC\x81"));
}

TEST_P(validation, hostile_keys_are_locks_of_their_own) {
    using namespace std::string_literals;
    const std::vector<std::string> with_nul = {"a\0b"s, "a\0c"s};
    std::vector<std::string> keys = {"a\r\nDEL b",
                                     "'; DROP TABLE syncguard_locks; --",
                                     "\"",
                                     "\\",
                                     "{}",
                                     "{a}",
                                     "..",
                                     ".",
                                     "a/b",
                                     "__a__",
                                     "fence:k",
                                     "id:abc",
                                     "%s%n",
                                     "\xE2\x80\x8B",
                                     " ",
                                     "  ",
                                     "k",
                                     "K",
                                     "\x7F",
                                     "\x01",
                                     "fence:fence:k",
                                     "\xF0\x9F\x94\x92"};
    if (fixture_->stores_nul()) {
        keys.insert(keys.end(), with_nul.begin(), with_nul.end());
    } else {
        for (const auto& key : with_nul) {
            expect_error(error_code::invalid_argument, [&] { (void)acquire(key); });
            expect_error(error_code::invalid_argument, [&] { (void)is_locked(key); });
        }
    }
    std::set<std::string> ids;
    for (const auto& key : keys) {
        const auto id = take(key);
        EXPECT_TRUE(ids.insert(id.to_string()).second);
    }
    for (const auto& key : keys)
        EXPECT_TRUE(is_locked(key)) << testing::PrintToString(key);
    for (const auto& id : ids)
        EXPECT_TRUE(release(id).ok);
    for (const auto& key : keys)
        EXPECT_FALSE(is_locked(key)) << testing::PrintToString(key);
}

}  // namespace
}  // namespace syncguard::test
