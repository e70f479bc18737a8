/// Locks on a Redis server, shared also with SyncGuard programs in other languages.
#pragma once

#include <syncguard/backend.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace syncguard::redis {

struct capabilities {
    static constexpr std::string_view backend = "redis";
    static constexpr bool supports_fencing = true;
    static constexpr syncguard::time_authority time_authority = syncguard::time_authority::server;
};

/// TLS always verifies the server: its certificate must be valid, signed by a trusted authority,
/// and issued for the host in the options.
struct tls_options {
    /// Trusted authorities in PEM form. Empty: those of the system.
    std::filesystem::path ca_file{};
    /// The client's certificate chain and private key in PEM form, if the server requires them.
    std::filesystem::path certificate_file{};
    std::filesystem::path private_key_file{};
};

struct options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 6379;
    /// The path of a Unix socket; if set, `host` and `port` are not used.
    std::filesystem::path unix_socket{};
    /// If set, connections use TLS.
    std::optional<tls_options> tls{};

    /// An ACL user. Empty with a password: the default user. Some users need no password.
    std::string username{};
    std::string password{};
    unsigned database = 0;
    /// The name of the connection in the server's CLIENT LIST. Empty: none.
    std::string client_name = "syncguard";

    /// The beginning of all stored keys, the same in all programs that share locks. It must not
    /// contain "fence:" nor end in "fence": names of locks and fence counters would collide. No two
    /// prefixes on a database may be such that one is the other followed by a colon and more text
    /// (`a` and `a:b`): such clients may share a lock, but not its fence counter, which is not
    /// always detected. If the prefix has more than 227 bytes, keys of exactly 22 base64url
    /// characters are refused.
    std::string prefix = "syncguard";

    /// The timeout of a connection attempt, from the name lookup to the end of the login.
    milliseconds connect_timeout{5'000};
    /// How long a command that was sent may wait for its answer. Unset: until the deadline of its
    /// call.
    std::optional<milliseconds> command_timeout{};

    /// Lets `is_locked` remove a lock that ended more than two seconds ago by the server's clock.
    /// Redis removes locks by itself when their TTL ends: this option is for locks that another
    /// program has stored with a longer TTL. Fence counters are never removed. With this option,
    /// `is_locked` writes.
    bool cleanup_in_is_locked = false;
};

/// Reads `redis://[user:password@]host[:port][/database]`, the same with `rediss://` for TLS, or
/// `redis+unix://[user:password@]/path/to/socket`. `%XX` is decoded. Options follow after `?`:
/// `prefix`, `client_name`, `connect_timeout_ms`, `command_timeout_ms`, `cleanup_in_is_locked`
/// (true or false), with a socket `database`, and with TLS `ca_file`, `certificate_file`,
/// `private_key_file`. Throws `lock_error` (invalid_argument), whose message does not contain the
/// URL.
[[nodiscard]] options parse_url(std::string_view url);

/// One connection, opened at the first operation and again after it was lost, serves any number of
/// threads: operations that are ready at the same time are sent together. A blocking caller may do
/// the I/O of all callers; completion handlers may therefore run on a thread that is inside an
/// unrelated call. They must not wait for a mutex or other resource that such a thread may hold.
///
/// The Redis keys of a lock have the TTL of the lock, so the server removes them when it ends; the
/// tolerance of other stores has no effect here. Fence counters live as long as the server's data:
/// to keep fences rising across a crash of the server, run it with `appendonly yes` and
/// `appendfsync always`, and do not let it evict keys.
///
/// Messages of failures name the server: `service_unavailable` if the server cannot be reached or
/// refuses to serve, or if the connection breaks; `auth_failed` for credentials, permissions and
/// certificates; `rate_limited` if the server has too many clients; `network_timeout` if no answer
/// came in time; `invalid_argument` if a key is reserved (see docs/storage.md) or holds something
/// that is not a lock: data that other programs store under the names of locks and counters is
/// never overwritten.
///
/// If the answer to an acquisition is lost or late, or the caller no longer waits for it, the lock
/// is released in the background by its lock id. The destructor waits up to a second for such
/// releases; it also waits for a running name lookup of the system, which cannot be stopped.
class backend : public basic_backend<capabilities> {
  public:
    /// Throws `lock_error` (invalid_argument) for options that cannot be used. Opens no connection.
    explicit backend(options opts = {}, backend_options common = {});
};

}  // namespace syncguard::redis
