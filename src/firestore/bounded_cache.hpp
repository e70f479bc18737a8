/// Hash table of bounded size with FIFO eviction.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

namespace syncguard::firestore {

template <class Key, class Entry>
class bounded_cache {
  public:
    static constexpr std::size_t max_entries = 4'096;

    void remember(const Key& key, Entry value) {
        if (const auto found = entries_.find(key); found != entries_.end()) {
            found->second.value = std::move(value);
            return;
        }
        if (entries_.size() >= max_entries) forget(Key(by_age_.front()));
        // Spliced last, so that the list and the map stay consistent if either allocation fails.
        std::list<Key> youngest;
        youngest.push_back(key);
        entries_.emplace(key, node{std::move(value), youngest.begin()});
        by_age_.splice(by_age_.end(), youngest);
    }

    void forget(const Key& key) {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return;
        by_age_.erase(found->second.age);
        entries_.erase(found);
    }

    [[nodiscard]] std::optional<Entry> find(const Key& key) const {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return std::nullopt;
        return found->second.value;
    }

  private:
    struct node {
        Entry value;
        typename std::list<Key>::iterator age;
    };

    std::list<Key> by_age_;
    std::unordered_map<Key, node> entries_;
};

}  // namespace syncguard::firestore
