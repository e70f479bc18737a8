/// The names of a lock's three Redis keys, for code that does not use the engine.
#pragma once

#include <string>
#include <string_view>

namespace syncguard::bench {

inline std::string lock_key(std::string_view user_key) {
    return "syncguard:" + std::string(user_key);
}

inline std::string index_key(std::string_view lock_id) {
    return "syncguard:id:" + std::string(lock_id);
}

inline std::string fence_key(std::string_view user_key) {
    return "syncguard:fence:" + lock_key(user_key);
}

}  // namespace syncguard::bench
