#include "memory/engine.hpp"

#include "core/fence_limits.hpp"
#include "util/bounded_wait.hpp"

#include <syncguard/error.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace syncguard::memory {

memory_engine::memory_engine(options opts) : options_(std::move(opts)) {
    if (options_.fences_start_after > fence::max_counter) {
        throw lock_error(error_code::invalid_argument,
                         "fences_start_after is beyond the last fence");
    }
    fork_guard::add(*this);
}

memory_engine::~memory_engine() {
    fork_guard::remove(*this);
}

void memory_engine::after_fork_in_child() {
    // Threads of the parent wait on these condition variables: a destructor would wait for these
    // threads, which do not exist in the child.
    static auto* const leaked_after_fork = new std::list<waiting_thread>;
    leaked_after_fork->splice(leaked_after_fork->end(), waiting_);
    mutex_.unlock();
}

backend_capabilities memory_engine::capabilities() const noexcept {
    return {memory::capabilities::backend, memory::capabilities::supports_fencing,
            memory::capabilities::time_authority};
}

outcome memory_engine::execute(const request& req, const call_limits& limits) {
    // Only an acquisition with `wait_until` waits, and its deadline is later than `wait_until`.
    std::unique_lock guard(mutex_);
    if (const auto* acquisition = std::get_if<acquire_request>(&req)) {
        return acquire_when_free(guard, *acquisition, limits.stop);
    }
    return std::visit([this](const auto& typed) { return apply(typed); }, req);
}

outcome memory_engine::acquire_when_free(std::unique_lock<std::mutex>& guard,
                                         const acquire_request& req, const std::stop_token& stop) {
    while (true) {
        const auto began = lease_clock::now();
        outcome answer = apply(req);
        answer.attempt_started_at = began;
        const auto now = std::chrono::steady_clock::now();
        if (answer.ok || now >= req.wait_until) return answer;

        const auto self = waiting_.emplace(waiting_.end());
        self->key = req.key;
        self->changed.wait_until(guard, stop,
                                 std::min(req.wait_until, now + bounded_wait(*answer.free_within)),
                                 [&] { return self->key.empty(); });
        waiting_.erase(self);
        if (stop.stop_requested()) {
            throw lock_error(error_code::aborted, "the operation was cancelled while it waited");
        }
    }
}

void memory_engine::async_execute(const request& req, const call_limits& /*limits*/,
                                  completion handler) noexcept {
    outcome answer;
    std::exception_ptr failure;
    try {
        // An asynchronous acquisition does not wait for a release.
        const std::lock_guard guard(mutex_);
        answer = std::visit([this](const auto& typed) { return apply(typed); }, req);
    } catch (...) {
        failure = std::current_exception();
    }
    handler(std::move(failure), std::move(answer));
}

std::size_t memory_engine::stored_locks() const {
    const std::lock_guard guard(mutex_);
    return held_.size();
}

unix_time memory_engine::now() const {
    if (options_.clock) return options_.clock();
    return std::chrono::floor<milliseconds>(wall_time_at_boot_ +
                                            lease_clock::now().time_since_epoch());
}

memory_engine::key_node* memory_engine::find_key(std::string_view key) {
    const auto found = keys_.find(key);
    return found == keys_.end() ? nullptr : &*found;
}

memory_engine::key_node* memory_engine::find_owned(const lock_id& id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return nullptr;
    key_node* node = found->second;
    // The index is exact; ownership is verified nevertheless (ADR-003).
    return node->second.lock && node->second.lock->id == id ? node : nullptr;
}

void memory_engine::erase_lock(key_node& node) {
    const lock_entry& lock = *node.second.lock;
    by_id_.erase(lock.id);
    key_node* last = held_.back();
    held_[lock.index] = last;
    last->second.lock->index = lock.index;
    held_.pop_back();
    node.second.lock.reset();
    notify_waiting(node.first);
}

void memory_engine::notify_waiting(std::string_view key) {
    for (auto& each : waiting_) {
        if (each.key != key) continue;
        each.key = {};
        each.changed.notify_one();
    }
}

/// Checks two locks for each lock that is added, so that expired locks cannot accumulate.
void memory_engine::sweep_some(unix_time now) {
    for (int checks = 0; checks < 2 && !held_.empty(); ++checks) {
        if (sweep_at_ >= held_.size()) sweep_at_ = 0;
        key_node& node = *held_[sweep_at_];
        if (is_live(node.second.lock->expires_at, now)) {
            ++sweep_at_;
        } else {
            erase_lock(node);
        }
    }
}

outcome memory_engine::apply(const acquire_request& req) {
    const unix_time at = now();
    sweep_some(at);

    key_node* existing = find_key(req.key);
    key_node& node = existing != nullptr
                         ? *existing
                         : *keys_
                                .try_emplace(std::string(req.key),
                                             key_entry{options_.fences_start_after, std::nullopt})
                                .first;
    key_entry& entry = node.second;
    if (entry.lock && is_live(entry.lock->expires_at, at)) {
        return outcome::locked(longest_life(entry.lock->expires_at, at));
    }

    const fence granted = checked_fence(entry.fence_counter + 1);
    if (entry.lock) erase_lock(node);
    held_.push_back(&node);
    try {
        by_id_.emplace(req.id, &node);
    } catch (...) {
        held_.pop_back();
        throw;
    }
    ++entry.fence_counter;
    entry.lock = lock_entry{.id = req.id,
                            .expires_at = at + req.ttl,
                            .acquired_at = at,
                            .fence = granted,
                            .index = held_.size() - 1};
    return outcome::granted(entry.lock->expires_at, granted);
}

outcome memory_engine::apply(const release_request& req) {
    key_node* node = find_owned(req.id);
    if (node == nullptr) return outcome::failed(failure_reason::not_found);
    const bool live = is_live(node->second.lock->expires_at, now());
    erase_lock(*node);
    return live ? outcome::done() : outcome::failed(failure_reason::expired);
}

outcome memory_engine::apply(const extend_request& req) {
    key_node* node = find_owned(req.id);
    if (node == nullptr) return outcome::failed(failure_reason::not_found);
    const unix_time at = now();
    lock_entry& lock = *node->second.lock;
    if (!is_live(lock.expires_at, at)) {
        erase_lock(*node);
        return outcome::failed(failure_reason::expired);
    }
    const bool ends_earlier = at + req.ttl < lock.expires_at;
    lock.expires_at = at + req.ttl;
    if (ends_earlier) notify_waiting(node->first);
    return outcome::extended(lock.expires_at);
}

outcome memory_engine::apply(const is_locked_request& req) {
    const key_node* node = find_key(req.key);
    return outcome::boolean(node != nullptr && node->second.lock &&
                            is_live(node->second.lock->expires_at, now()));
}

namespace {

template <class Node>
outcome describe(const Node& node, unix_time now) {
    const auto& lock = *node.second.lock;
    if (!is_live(lock.expires_at, now)) return outcome::nothing_found();
    return outcome::found({.key = node.first,
                           .id = lock.id,
                           .expires_at = lock.expires_at,
                           .acquired_at = lock.acquired_at,
                           .fence = lock.fence});
}

}  // namespace

outcome memory_engine::apply(const key_lookup_request& req) {
    const key_node* node = find_key(req.key);
    if (node == nullptr || !node->second.lock) return outcome::nothing_found();
    return describe(*node, now());
}

outcome memory_engine::apply(const id_lookup_request& req) {
    const key_node* node = find_owned(req.id);
    return node == nullptr ? outcome::nothing_found() : describe(*node, now());
}

backend::backend(options opts, backend_options common)
    : basic_backend(std::make_shared<memory_engine>(std::move(opts)), std::move(common)) {}

}  // namespace syncguard::memory
