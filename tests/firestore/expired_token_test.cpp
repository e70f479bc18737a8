/// A token that expires during an operation.
#include "firestore/local_google.hpp"
#include "firestore/on_firestore.hpp"
#include "support/expect_error.hpp"
#include "support/firestore_proxy.hpp"

namespace syncguard::test {
namespace {

class firestore_expired_token : public on_firestore {
  protected:
    void SetUp() override {
        on_firestore::SetUp();
        if (project_) proxy_ = std::make_unique<firestore_proxy>(project_->port());
    }
    [[nodiscard]] firestore::backend open_with_tokens() const {
        return firestore::backend({.project = project_->name(),
                                   .endpoint = "http://" + proxy_->host(),
                                   .credentials_file = account_.path()},
                                  {.operation_timeout = 20s});
    }

    const request_fault refused_{.status = 401, .word = "UNAUTHENTICATED"};
    std::unique_ptr<firestore_proxy> proxy_;
    local_token_server giver_;
    service_account_file account_{giver_.url()};
};

TEST_F(firestore_expired_token, is_replaced_between_a_read_and_its_commit) {
    const auto locks = open_with_tokens();
    proxy_->fail_next("commit", refused_);
    auto lease = locks.acquire("k", {.ttl = 60s});
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000001");
    EXPECT_EQ(giver_.requests().size(), 2U);
    EXPECT_EQ(proxy_->requests("batchGet"), 1U);
    EXPECT_EQ(proxy_->requests("commit"), 2U);

    proxy_->fail_next("commit", refused_);
    EXPECT_TRUE(lease->extend({.ttl = 90s}).ok);
    proxy_->fail_next("commit", refused_);
    EXPECT_TRUE(lease->release().ok);
    EXPECT_TRUE(project_->all("locks").empty());
}

TEST_F(firestore_expired_token, that_cannot_be_replaced_fails_the_call_and_locks_nothing) {
    const auto locks = open_with_tokens();
    for (int i = 0; i < 2; ++i)
        proxy_->fail_next("commit", refused_);
    expect_error(error_code::auth_failed, [&] { (void)locks.acquire("k", {.ttl = 60s}); });
    EXPECT_TRUE(project_->all("locks").empty());

    giver_.refuse_with({.status = 503});
    proxy_->fail_next("commit", refused_);
    expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k", {.ttl = 60s}); });
    EXPECT_TRUE(project_->all("locks").empty());
}

}  // namespace
}  // namespace syncguard::test
