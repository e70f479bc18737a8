/// `connect(url)`: a backend of any engine.
#pragma once

#include <syncguard/backend.hpp>

#include <string_view>

namespace syncguard {

/// Makes a backend from a URL:
///
/// - `memory:`: a new store in this process
/// - `sqlite:`: the host's default file, see `sqlite::default_path()`
/// - `sqlite:PATH`, `sqlite://PATH`: that file, with `%XX` decoded; the only option is
///   `?allow_remote_filesystem=true`
/// - `redis://HOST`, `rediss://HOST`, `redis+unix:///PATH`: a server, see `redis::parse_url`
/// - `postgres://HOST/DATABASE`, `postgresql://...`: a server, see `postgres::parse_url`
/// - `firestore://PROJECT[/DATABASE]`: Google's Firestore, see `firestore::parse_url`
///
/// Opens no file and no connection. Throws `lock_error` (invalid_argument) that names the scheme or
/// option if it is unknown or if this build does not have the engine.
[[nodiscard]] any_backend connect(std::string_view url, backend_options options = {});

}  // namespace syncguard
