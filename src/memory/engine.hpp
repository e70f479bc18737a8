/// The in-process store: a table of keys with their locks and fence counters.
#pragma once

#include "util/fork_guard.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/memory.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

namespace syncguard::memory {

/// One mutex guards everything: each operation only does a few look-ups under it.
class memory_engine : public engine, private fork_participant {
  public:
    explicit memory_engine(options opts);
    ~memory_engine() override;

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    [[nodiscard]] bool supports_waiting() const noexcept override { return true; }
    /// A call that failed is not executed later.
    [[nodiscard]] bool executes_extensions_in_order() const noexcept override { return true; }
    [[nodiscard]] outcome execute(const request& req, const call_limits& limits) override;
    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept override;

    /// The number of locks in the store: live ones, and expired ones that were not swept yet.
    [[nodiscard]] std::size_t stored_locks() const;

  private:
    // A forked child gets a copy of the store, which must not be in the middle of a change.
    void before_fork() override { mutex_.lock(); }
    void after_fork_in_parent() override { mutex_.unlock(); }
    void after_fork_in_child() override;

    /// The lock on a key. `held_` (for the sweep) and `by_id_` refer to its key.
    struct lock_entry {
        lock_id id;
        unix_time expires_at;
        unix_time acquired_at;
        syncguard::fence fence;
        std::size_t index;
    };

    /// The data of a key. The counter stays when the lock is removed.
    struct key_entry {
        std::uint64_t fence_counter;
        std::optional<lock_entry> lock;
    };

    struct text_hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const noexcept {
            return std::hash<std::string_view>{}(text);
        }
    };
    using key_table = std::unordered_map<std::string, key_entry, text_hash, std::equal_to<>>;
    using key_node = key_table::value_type;

    /// A thread in `execute` that waits for a lock to be released.
    struct waiting_thread {
        std::string_view key;
        std::condition_variable_any changed;
    };

    [[nodiscard]] outcome acquire_when_free(std::unique_lock<std::mutex>& guard,
                                            const acquire_request& req,
                                            const std::stop_token& stop);

    outcome apply(const acquire_request& req);
    outcome apply(const release_request& req);
    outcome apply(const extend_request& req);
    outcome apply(const is_locked_request& req);
    outcome apply(const key_lookup_request& req);
    outcome apply(const id_lookup_request& req);

    [[nodiscard]] unix_time now() const;
    [[nodiscard]] key_node* find_key(std::string_view key);
    [[nodiscard]] key_node* find_owned(const lock_id& id);
    void erase_lock(key_node& node);
    /// Wakes the threads that wait for a key, after its lock was removed or shortened.
    void notify_waiting(std::string_view key);
    void sweep_some(unix_time now);

    const options options_;
    /// Locks end by the lease clock, which never steps. This offset, computed once, converts its
    /// times to wall times for display.
    const std::chrono::sys_time<std::chrono::nanoseconds> wall_time_at_boot_ =
        std::chrono::system_clock::now() - lease_clock::now().time_since_epoch();
    mutable std::mutex mutex_;
    key_table keys_;
    std::unordered_map<lock_id, key_node*> by_id_;
    std::vector<key_node*> held_;
    std::size_t sweep_at_ = 0;
    std::list<waiting_thread> waiting_;
};

}  // namespace syncguard::memory
