#include "version_memory.hpp"

#include <utility>

namespace syncguard::firestore {

namespace {

constexpr std::size_t most_entries = 4'096;

}  // namespace

void version_memory::remember(const lock_id& id, entry what) {
    if (const auto known = entries_.find(id); known != entries_.end()) {
        known->second.what = std::move(what);
        return;
    }
    if (entries_.size() >= most_entries) forget(lock_id(by_age_.front()));
    const auto age = by_age_.insert(by_age_.end(), id);
    entries_.emplace(id, place{std::move(what), age});
}

void version_memory::forget(const lock_id& id) {
    const auto known = entries_.find(id);
    if (known == entries_.end()) return;
    by_age_.erase(known->second.age);
    entries_.erase(known);
}

std::optional<version_memory::entry> version_memory::find(const lock_id& id) const {
    const auto known = entries_.find(id);
    if (known == entries_.end()) return std::nullopt;
    return known->second.what;
}

}  // namespace syncguard::firestore
