/// Telemetry reports every operation on every engine, with the specified reasons.
#include "contract/contract.hpp"

#include <syncguard/key.hpp>
#include <syncguard/telemetry.hpp>

#include <mutex>

namespace syncguard::test {
namespace {

SYNCGUARD_CONTRACT(telemetry);

/// The events of `body`, which gets an observed handle on `locks`.
template <class Body>
std::vector<lock_event> events_of(const any_backend& locks, Body body) {
    std::mutex mutex;
    std::vector<lock_event> events;
    const auto observed = with_telemetry(locks, {.on_event = [&](const lock_event& event) {
                                             const std::lock_guard guard(mutex);
                                             events.push_back(event);
                                         }});
    body(any_backend(observed));
    EXPECT_TRUE(observed.flush(10s));
    EXPECT_EQ(observed.dropped_events(), 0U);
    const std::lock_guard guard(mutex);
    return events;
}

TEST_P(telemetry, success_of_each_operation_is_reported_without_a_reason) {
    std::string id;
    const auto events = events_of(locks_, [&](const any_backend& locks) {
        auto lease = form_->acquire(locks, "k", {}, {});
        id = lease->detach().to_string();
        (void)form_->extend(locks, id, {}, {});
        (void)form_->is_locked(locks, "k", {});
        (void)form_->lookup(locks, key_lookup{"k"}, {});
        (void)form_->lookup(locks, ownership_lookup{id}, {});
        (void)form_->release(locks, id, {});
    });
    const std::vector<event_type> expected = {event_type::acquire,   event_type::extend,
                                              event_type::is_locked, event_type::lookup,
                                              event_type::lookup,    event_type::release};
    ASSERT_EQ(events.size(), expected.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
        EXPECT_EQ(events[i].type, expected[i]);
        EXPECT_TRUE(events[i].ok);
        EXPECT_FALSE(events[i].reason);
        EXPECT_FALSE(events[i].key);
        EXPECT_FALSE(events[i].lock_id);
    }
    EXPECT_EQ(events[0].key_hash, hash_key("k"));
    EXPECT_EQ(events[0].lock_id_hash, hash_key(id));
    EXPECT_EQ(events[1].lock_id_hash, hash_key(id));
    EXPECT_FALSE(events[1].key_hash);
    EXPECT_EQ(events[2].key_hash, hash_key("k"));
    EXPECT_FALSE(events[2].lock_id_hash);
}

TEST_P(telemetry, failures_are_reported_with_the_specified_reasons) {
    take("k", 1h);
    const auto stale = take("old", 1s);
    const auto stale_too = take("older", 1s);
    fixture_->advance(1s + fixture_->grace());
    const auto events = events_of(locks_, [&](const any_backend& locks) {
        (void)form_->release(locks, stale, {});
        (void)form_->extend(locks, stale_too, {}, {});
        (void)form_->release(locks, lock_id::generate(), {});
        (void)form_->acquire(locks, "k", {}, {});
        (void)form_->is_locked(locks, "free", {});
        (void)form_->lookup(locks, key_lookup{"free"}, {});
    });
    ASSERT_EQ(events.size(), 6U);
    for (const auto& event : events)
        EXPECT_FALSE(event.ok);
    EXPECT_EQ(events[0].reason, fixture_->reason_after_expiry());
    EXPECT_EQ(events[1].reason, fixture_->reason_after_expiry());
    EXPECT_EQ(events[2].reason, failure_reason::not_found);
    EXPECT_EQ(events[3].reason, failure_reason::locked);
    EXPECT_FALSE(events[3].lock_id_hash);
    EXPECT_FALSE(events[4].reason);
    EXPECT_FALSE(events[5].reason);
}

TEST_P(telemetry, an_observed_handle_obeys_the_same_contract) {
    const auto observed = with_telemetry(locks_, {.on_event = [](const lock_event&) {}});
    auto lease = form_->acquire(observed, "k", {}, {});
    ASSERT_TRUE(lease);
    EXPECT_FALSE(acquire("k"));
    EXPECT_TRUE(form_->release(*lease).ok);
    EXPECT_EQ(observed.capabilities().backend, locks_.capabilities().backend);
}

}  // namespace
}  // namespace syncguard::test
