/// The time until which a lease may rely on its lock, for every order in which a store may execute
/// extensions.
#include "support/test_seed.hpp"

#include <syncguard/detail/lease_deadline.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using detail::drift_margin;
using detail::lease_deadline;

constexpr double drift = 0.01;
const lease_clock::time_point start{1000s};

/// The deadline of a lease whose TTL begins at `sent_at`.
lease_clock::time_point end_of(lease_clock::time_point sent_at, milliseconds ttl) {
    return sent_at + ttl - drift_margin(ttl, drift);
}

TEST(drift_margin_test, is_a_fraction_of_the_ttl_plus_two_milliseconds_and_at_most_half_the_ttl) {
    EXPECT_EQ(drift_margin(30s, 0.01), 302ms);
    EXPECT_EQ(drift_margin(5s, 0.08), 402ms);
    EXPECT_EQ(drift_margin(1ms, 0.01), 500us);
    EXPECT_EQ(drift_margin(100s, 0.5), 50s);
}

TEST(lease_deadline_test, begins_with_the_sending_of_the_acquisition) {
    const lease_deadline lease(start, 30s, drift);
    EXPECT_EQ(lease.deadline(), end_of(start, 30s));
    EXPECT_EQ(lease.renewed_at(), start);
}

TEST(lease_deadline_test, an_answered_extension_counts_from_its_sending) {
    lease_deadline lease(start, 30s, drift);
    const auto extension = lease.send(start + 10s, 30s);
    EXPECT_EQ(lease.deadline(), end_of(start, 30s));
    lease.acknowledge(extension, start + 12s);
    EXPECT_EQ(lease.deadline(), end_of(start + 10s, 30s));
    EXPECT_EQ(lease.renewed_at(), start + 10s);
}

TEST(lease_deadline_test, a_shorter_extension_counts_from_its_sending_answered_or_not) {
    lease_deadline lease(start, 30s, drift);
    const auto extension = lease.send(start + 1s, 500ms);
    EXPECT_EQ(lease.deadline(), end_of(start + 1s, 500ms));
    lease.mark_unknown(extension);
    EXPECT_EQ(lease.deadline(), end_of(start + 1s, 500ms));
}

TEST(lease_deadline_test, an_unknown_extension_may_follow_every_later_one) {
    lease_deadline lease(start, 30s, drift);
    lease.mark_unknown(lease.send(start + 1s, 10s));
    const auto later = lease.send(start + 5s, 30s);
    lease.acknowledge(later, start + 6s);
    // If the store executes the unknown extension after the later one, the lock ends ten seconds
    // after that, not earlier.
    EXPECT_EQ(lease.deadline(), end_of(start + 5s, 10s));
    EXPECT_EQ(lease.renewed_at(), start + 5s);
}

TEST(lease_deadline_test,
     a_failed_extension_of_an_ordered_store_counts_until_a_later_one_is_answered) {
    lease_deadline lease(start, 30s, drift);
    lease.mark_failed(lease.send(start + 1s, 500ms), start + 2s);
    EXPECT_EQ(lease.deadline(), end_of(start + 1s, 500ms));
    lease.mark_failed(lease.send(start + 1s + 100ms, 10s), start + 1s + 200ms);
    EXPECT_EQ(lease.deadline(), end_of(start + 1s, 500ms));
    // Sent before the first extension failed: the store may execute the first after this one.
    lease.acknowledge(lease.send(start + 1s + 300ms, 20s), start + 1s + 400ms);
    EXPECT_EQ(lease.deadline(), end_of(start + 1s + 300ms, 500ms));
    lease.acknowledge(lease.send(start + 2s + 1ms, 20s), start + 3s);
    EXPECT_EQ(lease.deadline(), end_of(start + 2s + 1ms, 20s));
}

TEST(lease_deadline_test, failed_extensions_of_an_ordered_store_limit_it_each_by_its_own_time) {
    lease_deadline lease(start, 30s, drift);
    lease.mark_failed(lease.send(start + 10s, 30s), start + 15s);
    lease.mark_failed(lease.send(start + 15s + 500ms, 5s), start + 16s + 500ms);
    // Not five seconds after the first one was sent.
    EXPECT_EQ(lease.deadline(), end_of(start + 15s + 500ms, 5s));
    const auto renewal = lease.send(start + 16s, 30s);
    lease.mark_failed(lease.send(start + 16s + 100ms, 20s), start + 17s);
    lease.acknowledge(renewal, start + 18s);
    // The first one had failed before the renewal was sent; the others may have followed it.
    EXPECT_EQ(lease.deadline(), end_of(start + 16s, 5s));
}

TEST(lease_deadline_test, the_shorter_of_overlapping_extensions_counts_until_another_one_follows) {
    lease_deadline lease(start, 1s, drift);
    const auto brief = lease.send(start + 100ms, 5s);
    const auto lengthy = lease.send(start + 200ms, 60s);
    lease.acknowledge(lengthy, start + 300ms);
    EXPECT_EQ(lease.deadline(), end_of(start + 200ms, 5s));
    lease.acknowledge(brief, start + 400ms);
    EXPECT_EQ(lease.deadline(), end_of(start + 200ms, 5s));
    lease.acknowledge(lease.send(start + 500ms, 60s), start + 600ms);
    EXPECT_EQ(lease.deadline(), end_of(start + 500ms, 60s));
}

TEST(lease_deadline_test,
     an_extension_that_is_sent_at_the_time_of_an_answer_may_be_executed_before_it) {
    lease_deadline lease(start, 30s, drift);
    const auto brief = lease.send(start + 1s, 5s);
    const auto lengthy = lease.send(start + 2s, 60s);
    lease.acknowledge(brief, start + 2s);
    lease.acknowledge(lengthy, start + 3s);
    EXPECT_EQ(lease.deadline(), end_of(start + 2s, 5s));
}

TEST(lease_deadline_test, a_hanging_extension_limits_renewals_only_by_its_own_ttl) {
    lease_deadline lease(start, 2s, drift);
    (void)lease.send(start + 100ms, 1900ms);
    for (auto now = start + 700ms; now < start + 1h; now += 700ms) {
        ASSERT_GT(lease.deadline(), now);
        lease.acknowledge(lease.send(now, 2s), now + 10ms);
        EXPECT_EQ(lease.deadline(), end_of(now, 1900ms));
    }
}

/// A store that executes each extension once or never, at any time after it was sent; before its
/// answer if it is answered. If `is_ordered`, an extension is no longer executed once the store has
/// executed another one that was sent after the first had failed.
struct simulated_store {
    struct extension {
        lease_deadline::ticket id;
        milliseconds ttl;
        lease_clock::time_point sent_at;
        lease_clock::time_point failed_at = lease_clock::time_point::max();
        bool can_be_executed = true;
        bool open = true;  ///< Neither answered nor failed.
    };
    bool is_ordered;
    lease_clock::time_point expires_at{};
    std::vector<extension> extensions{};

    void execute(extension& chosen, lease_clock::time_point now) {
        chosen.can_be_executed = false;
        for (auto& other : extensions) {
            if (is_ordered && other.failed_at < chosen.sent_at) other.can_be_executed = false;
        }
        // The store's clock runs one per cent fast.
        expires_at =
            now + std::chrono::duration_cast<lease_clock::duration>(
                      std::chrono::duration<double, lease_clock::period>(chosen.ttl) / 1.01);
    }
};

/// How a store executes extensions whose calls have failed.
enum class failed_extensions { at_any_time, before_later_ones };

class lease_deadline_of_a_store : public testing::TestWithParam<failed_extensions> {};
INSTANTIATE_TEST_SUITE_P(all, lease_deadline_of_a_store,
                         testing::Values(failed_extensions::at_any_time,
                                         failed_extensions::before_later_ones));

TEST_P(lease_deadline_of_a_store, never_exceeds_the_locks_end_whatever_order_it_executes) {
    const bool is_ordered = GetParam() == failed_extensions::before_later_ones;
    std::mt19937_64 random(test_seed());
    const auto pick = [&](int below) {
        return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    std::size_t extended_leases = 0;
    for (int run = 0; run < 20'000; ++run) {
        auto now = start;
        const milliseconds ttl(50 + pick(500));
        lease_deadline lease(now, ttl, drift);
        now += milliseconds(pick(10));
        simulated_store store{.is_ordered = is_ordered};
        simulated_store::extension acquisition{.id = 0, .ttl = ttl, .sent_at = start};
        store.execute(acquisition, now);
        for (int step = 0; step < 40; ++step) {
            now += milliseconds(pick(20));
            // The lease has ended: later steps do not matter to it.
            if (now >= lease.deadline()) break;
            if (store.extensions.empty() || pick(3) == 0) {
                const milliseconds asked(20 + pick(500));
                store.extensions.push_back(
                    {.id = lease.send(now, asked), .ttl = asked, .sent_at = now});
            } else {
                auto& chosen = store.extensions[static_cast<std::size_t>(
                    pick(static_cast<int>(store.extensions.size())))];
                const int action = pick(3);
                if (action == 0 && chosen.can_be_executed) {
                    store.execute(chosen, now);
                } else if (action == 1 && chosen.open) {
                    if (chosen.can_be_executed) store.execute(chosen, now);
                    chosen.open = false;
                    lease.acknowledge(chosen.id, now);
                    extended_leases += lease.deadline() > start + ttl ? 1U : 0U;
                } else if (action == 2 && chosen.open) {
                    chosen.open = false;
                    chosen.failed_at = now;
                    if (is_ordered) {
                        lease.mark_failed(chosen.id, now);
                    } else {
                        lease.mark_unknown(chosen.id);
                    }
                }
            }
            ASSERT_LE(lease.deadline(), store.expires_at) << "run " << run << ", step " << step;
        }
    }
    // The deadline is not just safe but also useful: many leases were extended.
    EXPECT_GT(extended_leases, 10'000U);
}

}  // namespace
}  // namespace syncguard::test
