/// Which keys the script touches, and how.
#include "../../src/redis/scripts.hpp"
#include "monitor.hpp"
#include "on_redis.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <set>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

class lock_script_in_redis : public on_redis {
  protected:
    void SetUp() override {
        // The connection is made, and the script known, before anybody looks.
        (void)locks_.is_locked("k");
    }

    /// Lets calls gather while the server is silent, so that many go together.
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
    std::size_t largest_call = 0;  ///< In keys.
    std::set<std::string> commands_on_fences{};
    std::set<std::string> commands{};
};

/// Checks what holds for everything that is ever executed.
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

TEST_F(lock_script_in_redis, acquiring_counts_a_fence_that_it_declares) {
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

TEST_F(lock_script_in_redis, nothing_else_touches_a_fence) {
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

TEST_F(lock_script_in_redis, the_same_holds_for_operations_that_travel_together) {
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

/// Calls the script by hand, and knows the names of what is stored.
class call_of_the_lock_script : public lock_script_in_redis {
  protected:
    using words = std::vector<std::string>;

    static std::string lock(const std::string& key) { return "syncguard:" + key; }
    static std::string index(char letter) { return "syncguard:id:" + std::string(22, letter); }
    static std::string fence(const std::string& key) { return "syncguard:fence:syncguard:" + key; }

    /// What the script says of each operation: a number, or the first word of an error.
    words call(const words& keys, const words& arguments) {
        words command_words{"EVAL", std::string(redis::lock_script().text),
                            std::to_string(keys.size())};
        command_words.insert(command_words.end(), keys.begin(), keys.end());
        command_words.insert(command_words.end(), arguments.begin(), arguments.end());
        const auto reply = command(command_words);
        words told;
        for (const auto& each : reply.list)
            told.push_back(each.is_error ? each.text.substr(0, each.text.find(' '))
                                         : std::to_string(each.integer));
        EXPECT_FALSE(told.empty()) << reply.text;
        if (!told.empty()) told.erase(told.begin());  // the time
        return told;
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

TEST_F(call_of_the_lock_script, operations_fail_each_for_itself) {
    command({"RPUSH", lock("list"), "x"});
    command({"SET", fence("end"), "900000000000000"});
    command({"SET", lock("foreign"), "x"});
    const auto granted = take(locks_, "held");
    const std::string held_index = "syncguard:id:" + granted.to_string();

    auto told = call(
        {lock("foreign"), lock("held"), lock("held"),                                //
         index('F'),      held_index,   held_index,                                  //
         lock("list"),    lock("end"),  lock("held"),  lock("held"),  lock("free"),  //
         index('A'),      index('B'),   index('C'),    index('D'),    index('E'),    //
         fence("list"),   fence("end"), fence("held"), fence("held"), fence("free"), lock("free")},
        {"release_known", "", "3", "acquire_plain", "30000", "5", "is_locked", "", "1"});
    ASSERT_EQ(told.size(), 9U);
    told[6] = told[6].substr(0, 1);
    EXPECT_EQ(told,
              (words{"FOREIGNVALUE", "1", "-1", "WRONGTYPE", "FENCEEND", "2", "-", "1", "1"}));
    EXPECT_EQ(command({"GET", fence("end")}).text, "900000000000000");
    EXPECT_EQ(command({"GET", index('C')}).text, lock("held"));
}

TEST_F(call_of_the_lock_script, acquisitions_of_free_keys_ask_once_whether_they_are) {
    monitor watch(server_);
    EXPECT_EQ(acquire({"a", "b", "c"}, "ABC"), (words{"1", "1", "1"}));
    const auto seen = checked(watch.executed());
    EXPECT_EQ(seen.commands, (names{"TIME", "EXISTS", "INCR", "SET"}));
    EXPECT_EQ(command({"GET", index('B')}).text, lock("b"));
}

TEST_F(call_of_the_lock_script, of_acquisitions_of_a_free_key_the_first_one_gets_it) {
    auto told = acquire({"a", "b", "a", "c", "a"}, "ABCDE");
    ASSERT_EQ(told.size(), 5U);
    for (const std::size_t loser : {2U, 4U})
        told[loser] = told[loser].substr(0, 1);
    EXPECT_EQ(told, (words{"1", "1", "-", "1", "-"}));
    EXPECT_EQ(command({"GET", index('A')}).text, lock("a"));
    EXPECT_EQ(command({"EXISTS", index('C'), index('E')}).integer, 0);
    EXPECT_EQ(command({"GET", fence("a")}).text, "1");
    EXPECT_NE(command({"GET", lock("a")}).text.find(std::string(22, 'A')), std::string::npos);
}

TEST_F(call_of_the_lock_script, who_comes_second_for_the_last_fence_finds_the_key_locked) {
    command({"SET", fence("a"), "899999999999999"});
    auto told = acquire({"a", "a"}, "AB");
    ASSERT_EQ(told.size(), 2U);
    told[1] = told[1].substr(0, 1);
    EXPECT_EQ(told, (words{"900000000000000", "-"}));
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

TEST_F(call_of_the_lock_script, of_releases_of_one_lock_the_first_one_releases_it) {
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
       a_release_that_finds_anothers_lock_leaves_it_and_lets_the_others_be) {
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

TEST_F(lock_script_in_redis, it_is_sent_once_and_again_when_the_server_has_forgotten_it) {
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

TEST_F(lock_script_in_redis, a_forgotten_script_disturbs_none_of_many_calls) {
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
