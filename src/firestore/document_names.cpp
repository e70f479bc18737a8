#include "firestore/document_names.hpp"

#include "util/short_hash.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <algorithm>

namespace syncguard::firestore {

namespace {

constexpr storage_key_budget budget{.limit_bytes = 1500, .reserve_bytes = 0};

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

bool is_reserved(std::string_view id) {
    return id == "." || id == ".." ||
           (id.size() >= 4 && id.starts_with("__") && id.ends_with("__"));
}

/// True if the text needs no percent-encoding and is not a dot segment of a path.
bool is_url_segment(std::string_view text) {
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

void check_collection(std::string_view name, const char* option_name) {
    const bool is_text = std::none_of(name.begin(), name.end(), [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == '\x7f' || c == '/';
    });
    if (name.empty() || name.size() > budget.limit_bytes || !is_text || is_reserved(name) ||
        !is_utf8(name)) {
        refuse(std::string(option_name) +
               " is the name of a Firestore collection: at most 1500 bytes of UTF-8 without '/' "
               "and control characters, neither '.' nor '..' nor '__...__'");
    }
}

}  // namespace

document_names::document_names(const options& opts)
    : root_("projects/" + opts.project + "/databases/" + opts.database + "/documents"),
      locks_(opts.locks_collection),
      counters_(opts.fence_counters_collection) {
    if (!is_url_segment(opts.project)) {
        refuse("a Firestore store needs the id of a Google Cloud project, such as my-project-1");
    }
    if (opts.database != "(default)" && !is_url_segment(opts.database)) {
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
    const auto lock_name = [this](std::string_view id) {
        return root_ + "/" + locks_ + "/" + std::string(id);
    };
    const auto counter_name = [this](std::string_view id) {
        return root_ + "/" + counters_ + "/" + std::string(id);
    };
    const std::string id = make_storage_key("", key, budget);
    const auto lock_path = document_path(id);
    const auto counter_path = document_path(make_fence_key("", id, budget));
    const bool has_path = lock_path && counter_path;
    pair names;
    if (has_path) {
        names.lock = lock_name(*lock_path);
        names.counter = counter_name(*counter_path);
        if (id.find('/') == std::string::npos) return names;
    }
    // Peers cannot lock a key without a path. Former versions hashed every key with a slash.
    const std::string hash = short_hash(id);
    (has_path ? names.former_lock : names.lock) = lock_name(hash);
    (has_path ? names.former_counter : names.counter) =
        counter_name(make_fence_key("", hash, budget));
    return names;
}

std::optional<std::string> document_path(std::string_view name) {
    if (name.starts_with('/')) name.remove_prefix(1);
    if (name.ends_with('/')) name.remove_suffix(1);
    std::size_t segments = 0;
    for (std::size_t begin = 0; begin <= name.size(); ++segments) {
        const auto end = std::min(name.find('/', begin), name.size());
        const auto segment = name.substr(begin, end - begin);
        if (segment.empty() || is_reserved(segment)) return std::nullopt;
        begin = end + 1;
    }
    // Collections and documents alternate, and a document comes first and last.
    if (segments % 2 == 0) return std::nullopt;
    return std::string(name);
}

}  // namespace syncguard::firestore
