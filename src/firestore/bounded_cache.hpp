/// A table that forgets the oldest entries beyond a fixed number.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

namespace syncguard::firestore {

template <class Key, class Entry>
class bounded_memory {
  public:
    static constexpr std::size_t most_entries = 4'096;

    void remember(const Key& key, Entry what) {
        if (const auto known = entries_.find(key); known != entries_.end()) {
            known->second.what = std::move(what);
            return;
        }
        if (entries_.size() >= most_entries) forget(Key(by_age_.front()));
        // Joined at the end: if there is no memory for one of the two, there is neither.
        std::list<Key> youngest;
        youngest.push_back(key);
        entries_.emplace(key, place{std::move(what), youngest.begin()});
        by_age_.splice(by_age_.end(), youngest);
    }

    void forget(const Key& key) {
        const auto known = entries_.find(key);
        if (known == entries_.end()) return;
        by_age_.erase(known->second.age);
        entries_.erase(known);
    }

    [[nodiscard]] std::optional<Entry> find(const Key& key) const {
        const auto known = entries_.find(key);
        if (known == entries_.end()) return std::nullopt;
        return known->second.what;
    }

  private:
    struct place {
        Entry what;
        typename std::list<Key>::iterator age;
    };

    std::list<Key> by_age_;
    std::unordered_map<Key, place> entries_;
};

}  // namespace syncguard::firestore
