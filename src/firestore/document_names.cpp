#include "document_names.hpp"

#include "../core/short_hash.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <algorithm>

namespace syncguard::firestore {

namespace {

constexpr storage_key_budget budget{.limit_bytes = 1500, .reserve_bytes = 0};

[[noreturn]] void refuse(const std::string& why) {
    throw lock_error(error_code::invalid_argument, why);
}

bool is_reserved(std::string_view id) {
    return id == "." || id == ".." ||
           (id.size() >= 4 && id.starts_with("__") && id.ends_with("__"));
}

bool can_be_document_id(std::string_view id) {
    return id.find('/') == std::string_view::npos && !is_reserved(id);
}

/// What goes into a URL as it is, and is no step to somewhere else in its path.
bool is_plain(std::string_view text) {
    return !text.empty() && text != "." && text != ".." &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.' || c == ':';
           });
}

bool is_utf8(std::string_view text) {
    try {
        (void)hash_key(text);
        return true;
    } catch (const lock_error&) {
        return false;
    }
}

void check_collection(std::string_view name, const char* what) {
    const bool is_text = std::none_of(name.begin(), name.end(), [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == '\x7f' || c == '/';
    });
    if (name.empty() || name.size() > budget.limit_bytes || !is_text || is_reserved(name) ||
        !is_utf8(name)) {
        refuse(std::string(what) +
               " is the name of a Firestore collection: at most 1500 bytes of UTF-8 without '/' "
               "and control characters, neither '.' nor '..' nor '__...__'");
    }
}

}  // namespace

document_names::document_names(const options& store)
    : root_("projects/" + store.project + "/databases/" + store.database + "/documents"),
      locks_(store.locks_collection),
      counters_(store.fence_counters_collection) {
    if (!is_plain(store.project)) {
        refuse("a Firestore store needs the id of a Google Cloud project, such as my-project-1");
    }
    if (store.database != "(default)" && !is_plain(store.database)) {
        refuse("a Firestore database is '(default)' or is named by letters, digits and hyphens");
    }
    check_collection(locks_, "locks_collection");
    check_collection(counters_, "fence_counters_collection");
    if (locks_ == counters_) {
        refuse(
            "locks and fence counters need collections of their own: locks are removed, counters "
            "must never be");
    }
}

document_names::pair document_names::of(std::string_view key) const {
    const std::string id = lock_document_id(key);
    return {.lock = root_ + "/" + locks_ + "/" + id,
            .counter = root_ + "/" + counters_ + "/" + counter_document_id(id)};
}

std::string lock_document_id(std::string_view key) {
    std::string id = make_storage_key("", key, budget);
    return can_be_document_id(id) ? id : short_hash(id);
}

std::string counter_document_id(std::string_view lock_id) {
    return make_fence_key("", lock_id, budget);
}

}  // namespace syncguard::firestore
