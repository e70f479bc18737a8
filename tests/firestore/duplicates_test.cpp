/// Several locks with the same id, which another program must have written.
#include "firestore/on_firestore.hpp"
#include "support/expect_error.hpp"

#include <syncguard/diagnostics.hpp>

namespace syncguard::test {
namespace {

class firestore_duplicates : public on_firestore {
  protected:
    void put(const std::string& key, milliseconds left) const {
        project_->put("locks", key, lock_fields(id_.to_string(), clock_.now() + left, key));
    }
    const lock_id id_ = lock_id::generate();
};

TEST_F(firestore_duplicates, that_are_live_are_reported_and_not_changed) {
    put("a", 10s);
    put("b", 10s);
    const auto before = project_->all("locks");
    const auto locks = open();
    expect_error(error_code::internal, [&] { (void)locks.release(id_); });
    expect_error(error_code::internal, [&] { (void)locks.extend(id_, {.ttl = 60s}); });
    EXPECT_EQ(project_->all("locks"), before);

    const auto messages = warnings_.first(2);
    ASSERT_EQ(messages.size(), 2U);
    EXPECT_NE(messages[0].find(hash_key("a")), std::string::npos) << messages[0];
    EXPECT_NE(messages[0].find(hash_key("b")), std::string::npos) << messages[0];
    EXPECT_EQ(messages[0].find(id_.str()), std::string::npos) << messages[0];
    // Most of a lock id can be computed from its hash.
    EXPECT_EQ(messages[0].find(hash_key(id_.str())), std::string::npos) << messages[0];
}

TEST_F(firestore_duplicates, with_only_one_live_lock_are_not_ambiguous) {
    put("ended", -10s);
    put("live", 10s);
    EXPECT_TRUE(owns(open(), id_));
    EXPECT_TRUE(open().release(id_).ok);
    EXPECT_TRUE(project_->fields("locks", "ended"));
    EXPECT_FALSE(project_->fields("locks", "live"));
    EXPECT_EQ(warnings_.first(2).size(), 2U);
}

TEST_F(firestore_duplicates, that_have_all_expired_are_expired) {
    put("a", -10s);
    put("b", -10s);
    EXPECT_FALSE(owns(open(), id_));
    EXPECT_FALSE(open().release(id_).ok);
    EXPECT_EQ(project_->all("locks").size(), 2U);
}

TEST_F(firestore_duplicates, do_not_prevent_a_lease_from_using_its_own_lock) {
    auto lease = open().acquire("mine");
    put("other", 10s);
    EXPECT_TRUE(lease->release().ok);
    EXPECT_TRUE(project_->fields("locks", "other"));
    EXPECT_TRUE(warnings_.all().empty());
}

}  // namespace
}  // namespace syncguard::test
