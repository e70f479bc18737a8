/// Values that are no locks belong to other programs: they are reported and not changed.
#include "redis/on_redis.hpp"
#include "support/expect_error.hpp"

#include <functional>
#include <future>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

const std::string lock_key = "syncguard:k";
const std::string fence_key = "syncguard:fence:syncguard:k";
const std::string some_id = "AAAAAAAAAAAAAAAAAAAAAA";
const std::string index_key = "syncguard:id:" + some_id;

class foreign_data_in_redis : public on_redis {
  protected:
    /// Runs `check` with a value of every type but string, one at a time.
    void with_each_other_type(const std::string& key, const std::function<void()>& check) {
        for (const std::vector<std::string>& make :
             std::vector<std::vector<std::string>>{{"RPUSH", key, "a", "b"},
                                                   {"HSET", key, "lockId", some_id},
                                                   {"SADD", key, "a"},
                                                   {"ZADD", key, "1", "a"},
                                                   {"XADD", key, "*", "field", "value"}}) {
            SCOPED_TRACE(make[0]);
            command({"DEL", key});
            command(make);
            check();
        }
    }
    void expect_refused(const std::function<void()>& action) {
        const auto failure = expect_error(error_code::invalid_argument, action);
        if (!failure) return;
        const std::string message = failure->what();
        EXPECT_EQ(message.find("syncguard:"), std::string::npos) << message;
        EXPECT_EQ(message.find(some_id), std::string::npos) << message;
        EXPECT_NE(message.find("another program"), std::string::npos) << message;
    }

    const redis::backend locks_ = open();
};

TEST_F(foreign_data_in_redis, of_another_type_in_the_place_of_a_lock) {
    with_each_other_type(lock_key, [&] {
        const auto before = contents();
        expect_refused([&] { (void)locks_.acquire("k"); });
        expect_refused([&] { (void)locks_.is_locked("k"); });
        expect_refused([&] { (void)locks_.lookup(key_lookup{"k"}); });
        EXPECT_EQ(contents(), before);
    });
}

TEST_F(foreign_data_in_redis, of_another_type_in_the_place_of_an_index) {
    with_each_other_type(index_key, [&] {
        const auto before = contents();
        expect_refused([&] { (void)locks_.release(some_id); });
        expect_refused([&] { (void)locks_.extend(some_id); });
        expect_refused([&] { (void)locks_.lookup(ownership_lookup{some_id}); });
        EXPECT_EQ(contents(), before);
    });
}

TEST_F(foreign_data_in_redis, of_another_type_in_the_key_that_an_index_names) {
    command({"SET", index_key, lock_key});
    with_each_other_type(lock_key, [&] {
        const auto before = contents();
        expect_refused([&] { (void)locks_.release(some_id); });
        expect_refused([&] { (void)locks_.extend(some_id); });
        expect_refused([&] { (void)locks_.lookup(ownership_lookup{some_id}); });
        EXPECT_EQ(contents(), before);
    });
}

TEST_F(foreign_data_in_redis, of_another_type_in_the_place_of_a_fence_counter) {
    with_each_other_type(fence_key, [&] {
        const auto before = contents();
        expect_refused([&] { (void)locks_.acquire("k"); });
        EXPECT_EQ(contents(), before);
        EXPECT_FALSE(locks_.is_locked("k"));
    });
}

TEST_F(foreign_data_in_redis, a_string_that_is_no_lock) {
    const std::string id = R"("lockId":")" + some_id + R"(")";
    const std::string whole =
        lock_json(some_id, server_.now() + 10s, server_.now(), R"("k \"}")", "000000000000001");
    std::vector<std::string> values{
        "",
        " ",
        "hello",
        "42",
        "null",
        "true",
        "\"text\"",
        "[]",
        "[1,2]",
        "{}",
        "{",
        R"({"lockId":)",
        "{" + id + "}",
        R"({"expiresAtMs":9999999999999})",
        R"({"lockId":7,"expiresAtMs":9999999999999})",
        R"({"lockId":null,"expiresAtMs":9999999999999})",
        R"({"lockId":["a"],"expiresAtMs":9999999999999})",
        "{" + id + R"(,"expiresAtMs":"9999999999999"})",
        "{" + id + R"(,"expiresAtMs":null})",
        "{" + id + R"(,"expiresAtMs":{}})",
        "{" + id + R"(,"expiresAtMs":NaN})",
        std::string("\0\xff\xfe", 3),
    };
    // What a writer leaves that dies in the middle of a write.
    for (std::size_t length = 1; length < whole.size(); ++length)
        values.push_back(whole.substr(0, length));

    for (const auto& value : values) {
        SCOPED_TRACE(value);
        command({"SET", lock_key, value});
        command({"SET", index_key, lock_key});
        const auto before = contents();
        expect_refused([&] { (void)locks_.acquire("k"); });
        expect_refused([&] { (void)locks_.is_locked("k"); });
        expect_refused([&] { (void)locks_.lookup(key_lookup{"k"}); });
        expect_refused([&] { (void)locks_.release(some_id); });
        expect_refused([&] { (void)locks_.extend(some_id); });
        expect_refused([&] { (void)locks_.lookup(ownership_lookup{some_id}); });
        EXPECT_EQ(contents(), before);
    }
}

TEST_F(foreign_data_in_redis, a_value_that_only_looks_like_an_expired_lock_is_not_taken_over) {
    for (const char* middle : {R"("acquiredAtMs":not json,"key":"k")",
                               R"("acquiredAtMs":1,"key":"k)", R"("acquiredAtMs":1,"key":"k""")"}) {
        command({"SET", lock_key,
                 R"({"lockId":")" + some_id + R"(","expiresAtMs":1000000000000,)" + middle +
                     R"(,"fence":"000000000000001"})"});
        const auto before = contents();
        expect_refused([&] { (void)locks_.acquire("k"); });
        EXPECT_EQ(contents(), before);
    }
}

TEST_F(foreign_data_in_redis, a_string_that_is_no_fence_counter) {
    for (const char* value :
         {"", " ", "text", "-1", "-5", "-9223372036854775808", "1.5", "1e3", "0x10", " 7", "7 ",
          "+7", "007", "nan", "inf", "1e300", "{\"fence\":1}"}) {
        SCOPED_TRACE(value);
        command({"SET", fence_key, value});
        const auto before = contents();
        expect_refused([&] { (void)locks_.acquire("k"); });
        EXPECT_EQ(contents(), before);
        EXPECT_FALSE(locks_.is_locked("k"));
    }
}

TEST_F(foreign_data_in_redis, a_counter_of_more_digits_than_fences_have_is_at_its_end) {
    for (const char* value : {"1000000000000000", "1234567890123456789", "9223372036854775807"}) {
        command({"SET", fence_key, value});
        const auto before = contents();
        expect_error(error_code::internal, [&] { (void)locks_.acquire("k"); });
        EXPECT_EQ(contents(), before);
    }
}

TEST_F(foreign_data_in_redis, a_lock_without_the_fields_of_a_lookup_is_still_respected) {
    command({"SET", index_key, lock_key});
    for (const char* rest :
         {"", R"(,"key":"k")", R"(,"key":"k","fence":"000000000000001")",
          R"(,"acquiredAtMs":1,"fence":"000000000000001")", R"(,"acquiredAtMs":1,"key":"k")",
          R"(,"acquiredAtMs":1,"key":7,"fence":"000000000000001")",
          R"(,"acquiredAtMs":1,"key":"k","fence":1)", R"(,"acquiredAtMs":1,"key":"k","fence":"1")",
          R"(,"acquiredAtMs":"1","key":"k","fence":"000000000000001")",
          R"(,"acquiredAtMs":1e300,"key":"k","fence":"000000000000001")",
          R"(,"acquiredAtMs":-1e300,"key":"k","fence":"000000000000001")",
          R"(,"acquiredAtMs":99999999999999999999,"key":"k","fence":"000000000000001")"}) {
        SCOPED_TRACE(rest);
        command({"SET", lock_key,
                 R"({"lockId":")" + some_id + R"(","expiresAtMs":9999999999999)" + rest + "}"});
        const auto before = contents();
        EXPECT_TRUE(locks_.is_locked("k"));
        EXPECT_FALSE(locks_.acquire("k"));
        expect_error(error_code::invalid_argument, [&] { (void)locks_.lookup(key_lookup{"k"}); });
        expect_error(error_code::invalid_argument,
                     [&] { (void)locks_.lookup(ownership_lookup{some_id}); });
        EXPECT_EQ(contents(), before);
    }
}

TEST_F(foreign_data_in_redis, one_such_key_does_not_affect_others_in_the_same_call) {
    command({"SET", "syncguard:foreign", "text"});
    ASSERT_FALSE(locks_.is_locked("k"));
    server_.pause();
    std::vector<std::future<bool>> answers;
    for (int i = 0; i < 12; ++i) {
        answers.push_back(std::async(std::launch::async, [&, i] {
            try {
                auto lease = locks_.acquire(i % 3 == 0 ? "foreign" : "k" + std::to_string(i));
                return lease.ok();
            } catch (const lock_error& failure) {
                return failure.code() != error_code::invalid_argument;
            }
        }));
    }
    server_.resume();
    for (std::size_t i = 0; i < answers.size(); ++i)
        EXPECT_EQ(answers[i].get(), i % 3 != 0) << i;
    EXPECT_EQ(command({"GET", "syncguard:foreign"}).text, "text");
}

}  // namespace
}  // namespace syncguard::test
