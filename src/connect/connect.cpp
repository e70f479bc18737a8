#include "core/backend_url.hpp"

#include <syncguard/connect.hpp>
#include <syncguard/error.hpp>
#include <syncguard/memory.hpp>

#ifdef SYNCGUARD_WITH_FIRESTORE
#include <syncguard/firestore.hpp>
#endif
#ifdef SYNCGUARD_WITH_POSTGRES
#include <syncguard/postgres.hpp>
#endif
#ifdef SYNCGUARD_WITH_REDIS
#include <syncguard/redis.hpp>
#endif
#ifdef SYNCGUARD_WITH_SQLITE
#include <syncguard/sqlite.hpp>
#endif

#include <array>
#include <string>
#include <utility>

namespace syncguard {

namespace {

using opener = any_backend (*)(const backend_url& url, backend_options options);

any_backend open_memory(const backend_url& url, backend_options options) {
    url.refuse_options();
    if (!url.body().empty()) {
        throw lock_error(error_code::invalid_argument,
                         "'memory:' takes nothing after the colon: each store is its own");
    }
    return memory::backend({}, std::move(options));
}

#ifdef SYNCGUARD_WITH_SQLITE
any_backend open_sqlite(const backend_url& url, backend_options options) {
    sqlite::options opts;
    for (const auto& [name, value] : url.options()) {
        if (name != "allow_remote_filesystem") {
            throw lock_error(error_code::invalid_argument, "'sqlite:' has no option '" + name +
                                                               "', only allow_remote_filesystem");
        }
        if (value != "true" && value != "false") {
            throw lock_error(error_code::invalid_argument,
                             "allow_remote_filesystem must be true or false");
        }
        opts.allow_remote_filesystem = value == "true";
    }
    std::string_view body = url.body();
    if (body.starts_with("//")) body.remove_prefix(2);
    opts.path = percent_decoded(body);
    return sqlite::backend(std::move(opts), std::move(options));
}
#else
constexpr opener open_sqlite = nullptr;
#endif

#ifdef SYNCGUARD_WITH_REDIS
any_backend open_redis(const backend_url& url, backend_options options) {
    return redis::backend(redis::parse_url(url.text()), std::move(options));
}
#else
constexpr opener open_redis = nullptr;
#endif

#ifdef SYNCGUARD_WITH_FIRESTORE
any_backend open_firestore(const backend_url& url, backend_options options) {
    return firestore::backend(firestore::parse_url(url.text()), std::move(options));
}
#else
constexpr opener open_firestore = nullptr;
#endif
#ifdef SYNCGUARD_WITH_POSTGRES
any_backend open_postgres(const backend_url& url, backend_options options) {
    return postgres::backend(postgres::parse_url(url.text()), std::move(options));
}
#else
constexpr opener open_postgres = nullptr;
#endif

struct engine_entry {
    std::string_view scheme;
    opener open;  ///< Null if this build does not have the engine.
};

constexpr std::array engines{
    engine_entry{"memory", &open_memory},      engine_entry{"sqlite", open_sqlite},
    engine_entry{"redis", open_redis},         engine_entry{"rediss", open_redis},
    engine_entry{"redis+unix", open_redis},    engine_entry{"postgres", open_postgres},
    engine_entry{"postgresql", open_postgres}, engine_entry{"firestore", open_firestore},
};

std::string known_schemes() {
    std::string list;
    for (const auto& entry : engines) {
        if (entry.open == nullptr) continue;
        if (!list.empty()) list += ", ";
        list.append(entry.scheme).append(":");
    }
    return list;
}

}  // namespace

any_backend connect(std::string_view url, backend_options options) {
    const backend_url parsed(url);
    for (const auto& entry : engines) {
        if (entry.scheme != parsed.scheme()) continue;
        if (entry.open == nullptr) {
            throw lock_error(error_code::invalid_argument,
                             "this build has no '" + parsed.scheme() +
                                 "' backend; rebuild with it, or use one of: " + known_schemes());
        }
        return entry.open(parsed, std::move(options));
    }
    throw lock_error(error_code::invalid_argument, "there is no backend '" + parsed.scheme() +
                                                       ":'; use one of: " + known_schemes());
}

}  // namespace syncguard
