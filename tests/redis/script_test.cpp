/// Which keys the script accesses, and by which commands.
#include "redis/monitor.hpp"
#include "redis/on_redis.hpp"
#include "redis/scripts.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace syncguard::test {
namespace {

class lock_script_in_redis : public on_redis {
  protected:
    void SetUp() override {
        // Makes the connection and loads the script before a test begins.
        (void)locks_.is_locked("k");
    }

    /// Collects calls while the server is paused, so that many are sent together.
    template <class Call>
    void together(int count, Call call) {
        server_.pause();
        std::vector<std::future<void>> calls;
        for (int i = 0; i < count; ++i)
            calls.push_back(std::async(std::launch::async, [&, i] { call(i); }));
        server_.resume();
        for (auto& each : calls)
            each.get();
    }

    const redis::backend locks_ = open();
};

bool names_a_fence(const std::string& word) {
    return word.starts_with("syncguard:fence:");
}

bool is_script_call(const monitored_command& command) {
    return command.words[0] == "EVALSHA" || command.words[0] == "EVAL";
}

/// The KEYS of a call of the script.
std::set<std::string> declared_by(const monitored_command& call) {
    const auto count = std::stol(call.words.at(2));
    return {call.words.begin() + 3, call.words.begin() + 3 + count};
}

struct summary {
    std::size_t largest_call = 0;  ///< The number of its keys.
    std::set<std::string> commands_on_fences{};
    std::set<std::string> commands{};
};

/// Checks the rules that hold for all executed commands.
summary checked(const std::vector<monitored_command>& executed) {
    summary seen;
    std::set<std::string> declared;
    for (const auto& each : executed) {
        if (!each.by_script) {
            if (!is_script_call(each)) continue;
            declared = declared_by(each);
            seen.largest_call = std::max(seen.largest_call, declared.size());
            continue;
        }
        seen.commands.insert(each.words[0]);
        for (const auto& word : each.words) {
            if (!names_a_fence(word)) continue;
            EXPECT_TRUE(declared.contains(word)) << each.words[0] << " " << word;
            seen.commands_on_fences.insert(each.words[0]);
        }
    }
    return seen;
}

using names = std::set<std::string>;

TEST_F(lock_script_in_redis, acquiring_increments_a_fence_that_it_declares) {
    monitor watch(server_);
    (void)take(locks_, "k");
    const auto seen = checked(watch.executed());
    EXPECT_EQ(seen.commands, (names{"TIME", "GET", "INCR", "SET"}));
    EXPECT_EQ(seen.commands_on_fences, names{"INCR"});
    EXPECT_FALSE(locks_.acquire("k"));
    const auto contended = checked(watch.executed());
    EXPECT_EQ(contended.commands, (names{"TIME", "GET"}));
    EXPECT_TRUE(contended.commands_on_fences.empty());
}

TEST_F(lock_script_in_redis, no_other_operation_accesses_a_fence) {
    const auto id = take(locks_, "k");
    monitor watch(server_);
    const auto commands_of = [&](const auto& operation) {
        (void)operation();
        const auto seen = checked(watch.executed());
        EXPECT_TRUE(seen.commands_on_fences.empty());
        return seen.commands;
    };
    EXPECT_EQ(commands_of([&] { return locks_.extend(id); }), (names{"TIME", "GET", "SET"}));
    EXPECT_EQ(commands_of([&] { return locks_.is_locked("k"); }), (names{"TIME", "GET"}));
    EXPECT_EQ(commands_of([&] { return locks_.lookup(key_lookup{"k"}); }), (names{"TIME", "GET"}));
    EXPECT_EQ(commands_of([&] { return locks_.lookup(ownership_lookup{id}); }),
              (names{"TIME", "GET"}));
    EXPECT_EQ(commands_of([&] { return locks_.release(id); }), (names{"TIME", "GET", "DEL"}));
    EXPECT_EQ(commands_of([&] { return locks_.release(id); }), (names{"TIME", "GET"}));
}

TEST_F(lock_script_in_redis, the_same_holds_for_batches) {
    monitor watch(server_);
    constexpr int many = 60;
    std::vector<std::string> ids(many);
    together(many, [&](int i) {
        ids[static_cast<std::size_t>(i)] = take(locks_, "key " + std::to_string(i)).to_string();
    });
    auto seen = checked(watch.executed());
    EXPECT_GT(seen.largest_call, 30U);
    EXPECT_EQ(seen.commands_on_fences, names{"INCR"});

    together(many, [&](int i) {
        const auto& id = ids[static_cast<std::size_t>(i)];
        const auto key = "key " + std::to_string(i);
        switch (i % 5) {
            case 0:
                EXPECT_TRUE(locks_.extend(id).ok);
                break;
            case 1:
                EXPECT_TRUE(locks_.is_locked(key));
                break;
            case 2:
                EXPECT_TRUE(locks_.lookup(key_lookup{key}));
                break;
            case 3:
                EXPECT_TRUE(locks_.lookup(ownership_lookup{id}));
                break;
            default:
                EXPECT_TRUE(locks_.release(id).ok);
        }
    });
    seen = checked(watch.executed());
    EXPECT_GT(seen.largest_call, 10U);
    EXPECT_EQ(seen.commands_on_fences, names{});

    together(many, [&](int i) {
        const auto& id = ids[static_cast<std::size_t>(i)];
        if (i % 2 == 0) {
            (void)locks_.release(id);
        } else {
            EXPECT_TRUE(locks_.acquire("other " + std::to_string(i)));
        }
    });
    seen = checked(watch.executed());
    EXPECT_EQ(seen.commands_on_fences, names{"INCR"});
    for (const auto& [key, entry] : contents()) {
        if (names_a_fence(key)) {
            EXPECT_EQ(entry, (stored{"string", "1", -1})) << key;
        }
    }
}

TEST_F(lock_script_in_redis, operations_of_one_call_see_each_others_effects_in_their_order) {
    constexpr int many = 40;
    std::atomic<int> granted = 0;
    together(many, [&](int /*i*/) {
        if (auto lease = locks_.acquire("contended")) {
            lease->detach();
            ++granted;
        }
    });
    EXPECT_EQ(granted, 1);
    EXPECT_EQ(command({"GET", "syncguard:fence:syncguard:contended"}).text, "1");
}

/// Calls the script directly, and names its keys.
class call_of_the_lock_script : public lock_script_in_redis {
  protected:
    using words = std::vector<std::string>;

    static std::string lock(const std::string& key) { return "syncguard:" + key; }
    static std::string index(char letter) { return "syncguard:id:" + std::string(22, letter); }
    static std::string fence(const std::string& key) { return "syncguard:fence:syncguard:" + key; }

    /// The script's reply to each operation: a number, or the first word of an error.
    words call(const words& keys, const words& arguments) {
        words command_words{"EVAL", std::string(redis::lock_script().text),
                            std::to_string(keys.size())};
        command_words.insert(command_words.end(), keys.begin(), keys.end());
        command_words.insert(command_words.end(), arguments.begin(), arguments.end());
        const auto reply = command(command_words);
        words replies;
        for (const auto& each : reply.list)
            replies.push_back(each.is_error ? each.text.substr(0, each.text.find(' '))
                                            : std::to_string(each.integer));
        EXPECT_FALSE(replies.empty()) << reply.text;
        if (!replies.empty()) replies.erase(replies.begin());  // the time
        return replies;
    }
    words acquire(const words& keys, const std::string& letters) {
        words stored;
        for (const auto& key : keys)
            stored.push_back(lock(key));
        for (const char letter : letters)
            stored.push_back(index(letter));
        for (const auto& key : keys)
            stored.push_back(fence(key));
        return call(stored, {"acquire_plain", "30000", std::to_string(keys.size())});
    }
    words release(const words& keys, const std::string& letters) {
        words stored;
        for (const auto& key : keys)
            stored.push_back(lock(key));
        for (const char letter : letters)
            stored.push_back(index(letter));
        return call(stored, {"release_known", "", std::to_string(keys.size())});
    }
};

TEST_F(call_of_the_lock_script, operations_fail_individually) {
    command({"RPUSH", lock("list"), "x"});
    command({"SET", fence("end"), "900000000000000"});
    command({"SET", lock("foreign"), "x"});
    const auto granted = take(locks_, "held");
    const std::string held_index = "syncguard:id:" + granted.to_string();

    auto replies = call(
        {lock("foreign"), lock("held"), lock("held"),                                //
         index('F'),      held_index,   held_index,                                  //
         lock("list"),    lock("end"),  lock("held"),  lock("held"),  lock("free"),  //
         index('A'),      index('B'),   index('C'),    index('D'),    index('E'),    //
         fence("list"),   fence("end"), fence("held"), fence("held"), fence("free"), lock("free")},
        {"release_known", "", "3", "acquire_plain", "30000", "5", "is_locked", "", "1"});
    ASSERT_EQ(replies.size(), 9U);
    replies[6] = replies[6].substr(0, 1);
    EXPECT_EQ(replies,
              (words{"FOREIGNVALUE", "1", "-1", "WRONGTYPE", "FENCEEND", "2", "-", "1", "1"}));
    EXPECT_EQ(command({"GET", fence("end")}).text, "900000000000000");
    EXPECT_EQ(command({"GET", index('C')}).text, lock("held"));
}

TEST_F(call_of_the_lock_script, acquisitions_of_free_keys_check_them_with_one_command) {
    monitor watch(server_);
    EXPECT_EQ(acquire({"a", "b", "c"}, "ABC"), (words{"1", "1", "1"}));
    const auto seen = checked(watch.executed());
    EXPECT_EQ(seen.commands, (names{"TIME", "EXISTS", "INCR", "SET"}));
    EXPECT_EQ(command({"GET", index('B')}).text, lock("b"));
}

TEST_F(call_of_the_lock_script, the_first_of_several_acquisitions_of_a_free_key_gets_it) {
    auto replies = acquire({"a", "b", "a", "c", "a"}, "ABCDE");
    ASSERT_EQ(replies.size(), 5U);
    for (const std::size_t loser : {2U, 4U})
        replies[loser] = replies[loser].substr(0, 1);
    EXPECT_EQ(replies, (words{"1", "1", "-", "1", "-"}));
    EXPECT_EQ(command({"GET", index('A')}).text, lock("a"));
    EXPECT_EQ(command({"EXISTS", index('C'), index('E')}).integer, 0);
    EXPECT_EQ(command({"GET", fence("a")}).text, "1");
    EXPECT_NE(command({"GET", lock("a")}).text.find(std::string(22, 'A')), std::string::npos);
}

TEST_F(call_of_the_lock_script, the_second_acquisition_at_the_last_fence_finds_the_key_locked) {
    command({"SET", fence("a"), "899999999999999"});
    auto replies = acquire({"a", "a"}, "AB");
    ASSERT_EQ(replies.size(), 2U);
    replies[1] = replies[1].substr(0, 1);
    EXPECT_EQ(replies, (words{"900000000000000", "-"}));
    EXPECT_EQ(command({"GET", fence("a")}).text, "900000000000000");
}

TEST_F(call_of_the_lock_script, a_counter_at_its_end_fails_alone_among_acquisitions_of_free_keys) {
    command({"SET", fence("b"), "900000000000000"});
    EXPECT_EQ(acquire({"a", "b", "c"}, "ABC"), (words{"1", "FENCEEND", "1"}));
    EXPECT_EQ(command({"GET", fence("b")}).text, "900000000000000");
    EXPECT_EQ(command({"EXISTS", lock("b"), index('B')}).integer, 0);
}

TEST_F(call_of_the_lock_script, releases_of_own_locks_are_made_by_one_command) {
    acquire({"a", "b", "c"}, "ABC");
    monitor watch(server_);
    EXPECT_EQ(release({"a", "b", "c"}, "ABC"), (words{"1", "1", "1"}));
    const auto seen = checked(watch.executed());
    EXPECT_EQ(seen.commands, (names{"TIME", "MGET", "DEL"}));
    EXPECT_EQ(contents().size(), 3U) << "only the counters are left";
}

TEST_F(call_of_the_lock_script, the_first_of_several_releases_of_one_lock_releases_it) {
    acquire({"a", "b"}, "AB");
    EXPECT_EQ(release({"a", "b", "a"}, "ABA"), (words{"1", "1", "-1"}));
    EXPECT_EQ(contents().size(), 2U) << "only the counters are left";
}

TEST_F(call_of_the_lock_script, a_release_among_others_needs_no_index) {
    acquire({"a", "b"}, "AB");
    command({"DEL", index('A')});
    EXPECT_EQ(release({"a", "b"}, "AB"), (words{"1", "1"}));
    EXPECT_EQ(contents().size(), 2U) << "only the counters are left";
}

TEST_F(call_of_the_lock_script,
       a_release_that_finds_anothers_lock_changes_neither_it_nor_the_other_releases) {
    acquire({"a", "b", "c"}, "ABC");
    command({"RPUSH", lock("list"), "x"});
    EXPECT_EQ(release({"a", "b", "list", "c", "gone"}, "AXLCG"),
              (words{"1", "-1", "WRONGTYPE", "1", "-1"}));
    EXPECT_EQ(command({"GET", index('B')}).text, lock("b"));
    EXPECT_NE(command({"GET", lock("b")}).text.find(std::string(22, 'B')), std::string::npos);
    EXPECT_EQ(command({"EXISTS", lock("a"), lock("c"), index('A'), index('C')}).integer, 0);
    EXPECT_EQ(command({"LLEN", lock("list")}).integer, 1);
}

TEST_F(call_of_the_lock_script, locks_of_other_writers_are_released_together_with_own_ones) {
    acquire({"a"}, "A");
    const auto ends = std::chrono::duration_cast<milliseconds>(
        (server_.now() + std::chrono::minutes(1)).time_since_epoch());
    command({"SET", lock("peer"),
             R"({"fence":"000000000000001","key":"peer","acquiredAtMs":1,"expiresAtMs":)" +
                 std::to_string(ends.count()) + R"(,"lockId":")" + std::string(22, 'P') + "\"}"});
    command({"SET", index('P'), lock("peer")});
    EXPECT_EQ(release({"a", "peer"}, "AP"), (words{"1", "1"}));
    EXPECT_EQ(command({"EXISTS", lock("a"), lock("peer"), index('A'), index('P')}).integer, 0);
}

/// Every operation that finds a lock by its id, alone and in a group.
class way_to_a_lock_of_the_script
    : public call_of_the_lock_script,
      public testing::WithParamInterface<std::tuple<std::string, std::size_t, bool>> {
  protected:
    /// Stores locks that expired this long ago, in keys without expiry, in the layout of this
    /// library or another.
    void store_locks_that_ended(milliseconds ago) {
        command({"FLUSHALL"});
        for (const char letter : letters())
            store_lock(letter, letter, ago);
    }
    void store_lock(char letter, char owner, milliseconds ago) {
        const std::string id(22, owner);
        const auto expires = server_.now() - ago;
        const std::string own =
            lock_json(id, expires, expires - 30s, json_key(letter), "000000000000001");
        const std::string other = R"({"fence":"000000000000001","key":)" + json_key(letter) +
                                  R"(,"acquiredAtMs":1,"expiresAtMs":)" + digits(expires) +
                                  R"(,"lockId":")" + id + "\"}";
        command({"SET", lock(std::string(1, letter)), has_own_layout() ? own : other});
        command({"SET", index(letter), lock(std::string(1, letter))});
    }
    words perform() {
        words keys;
        if (action().ends_with("_known")) {
            for (const char letter : letters())
                keys.push_back(lock(std::string(1, letter)));
        }
        for (const char letter : letters())
            keys.push_back(index(letter));
        return call(keys, {action(), action().starts_with("extend") ? "30000" : "",
                           std::to_string(letters().size())});
    }
    [[nodiscard]] words all(const std::string& code) const { return words(letters().size(), code); }
    [[nodiscard]] std::string letters() const {
        return std::string("ABCDEFGH").substr(0, std::get<1>(GetParam()));
    }
    [[nodiscard]] const std::string& action() const { return std::get<0>(GetParam()); }
    [[nodiscard]] bool has_own_layout() const { return std::get<2>(GetParam()); }
    static std::string json_key(char letter) { return std::string("\"") + letter + "\""; }
};

TEST_P(way_to_a_lock_of_the_script, a_lock_is_live_within_the_tolerance_and_expired_after_it) {
    for (const auto ago : {-30'000ms, 0ms, time_tolerance - 1ms}) {
        store_locks_that_ended(ago);
        EXPECT_EQ(perform(), all("1")) << ago.count();
        const bool extends = action().starts_with("extend");
        EXPECT_EQ(contents().size(), extends ? 2 * letters().size() : 0) << ago.count();
    }
    for (const auto ago : {time_tolerance, time_tolerance + 1ms, milliseconds(600'000)}) {
        store_locks_that_ended(ago);
        const auto before = contents();
        EXPECT_EQ(perform(), all("-2")) << ago.count();
        EXPECT_EQ(contents(), before) << ago.count();
    }
}

TEST_P(way_to_a_lock_of_the_script, an_expired_lock_fails_alone) {
    store_locks_that_ended(time_tolerance - 1ms);
    store_lock('A', 'A', time_tolerance);
    auto expected = all("1");
    expected.front() = "-2";
    EXPECT_EQ(perform(), expected);
}

TEST_P(way_to_a_lock_of_the_script, a_lock_with_another_id_is_not_changed) {
    store_locks_that_ended(-30s);
    store_lock('A', 'Z', -30s);
    const auto before = contents().at(lock("A"));
    auto expected = all("1");
    expected.front() = "0";
    EXPECT_EQ(perform(), expected);
    EXPECT_EQ(contents().at(lock("A")), before);
}

std::string name_of_way(
    const testing::TestParamInfo<way_to_a_lock_of_the_script::ParamType>& test) {
    const auto& [action, count, own_layout] = test.param;
    return action + (count == 1 ? "_alone_" : "_grouped_") + (own_layout ? "own" : "other") +
           "_layout";
}

INSTANTIATE_TEST_SUITE_P(all, way_to_a_lock_of_the_script,
                         testing::Combine(testing::Values("release", "release_known", "extend",
                                                          "extend_known"),
                                          testing::Values(1, 4), testing::Bool()),
                         name_of_way);

TEST_F(call_of_the_lock_script, a_key_is_taken_over_only_after_the_tolerance) {
    const auto store = [&](milliseconds ago) {
        command({"FLUSHALL"});
        for (const std::string key : {"a", "b"}) {
            const auto expires = server_.now() - ago;
            command({"SET", lock(key),
                     lock_json(std::string(22, 'Z'), expires, expires - 30s, '"' + key + '"',
                               "000000000000001")});
        }
    };
    store(time_tolerance - 1ms);
    EXPECT_EQ(acquire({"a"}, "A"), words{"0"});
    EXPECT_EQ(acquire({"a", "b"}, "AB"), (words{"0", "0"}));
    EXPECT_EQ(call({lock("a")}, {"is_locked", "", "1"}), words{"1"});
    store(time_tolerance);
    EXPECT_EQ(call({lock("a")}, {"is_locked", "", "1"}), words{"0"});
    EXPECT_EQ(acquire({"a"}, "A"), words{"2"});
    store(time_tolerance);
    EXPECT_EQ(acquire({"a", "b"}, "AB"), (words{"2", "2"}));
}

TEST_F(lock_script_in_redis, is_sent_once_and_again_when_the_server_has_forgotten_it) {
    monitor watch(server_);
    const auto evals = [&] {
        int count = 0;
        for (const auto& each : watch.executed())
            count += each.words[0] == "EVAL" ? 1 : 0;
        return count;
    };
    const auto id = take(locks_, "k");
    EXPECT_EQ(evals(), 0);
    command({"SCRIPT", "FLUSH"});
    EXPECT_TRUE(locks_.extend(id).ok);
    EXPECT_EQ(evals(), 1);
    command({"SCRIPT", "FLUSH"});
    EXPECT_TRUE(locks_.release(id).ok);
    EXPECT_EQ(evals(), 1);
    EXPECT_FALSE(locks_.is_locked("k"));
    EXPECT_EQ(evals(), 0);
}

TEST_F(lock_script_in_redis, a_forgotten_script_fails_none_of_many_calls) {
    command({"SCRIPT", "FLUSH"});
    together(100, [&](int i) {
        const auto key = "k" + std::to_string(i);
        const auto id = take(locks_, key);
        EXPECT_TRUE(locks_.extend(id).ok);
        EXPECT_TRUE(locks_.release(id).ok);
    });
    EXPECT_EQ(contents().size(), 100U);
}

}  // namespace
}  // namespace syncguard::test
