/// Locks shared through a Redis server, also with SyncGuard programs in other languages.
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

/// TLS always verifies the server: its certificate must be valid, signed by a known authority, and
/// made out to the host that was asked for.
struct tls_options {
    /// Trusted authorities in PEM form. Empty: those of the system.
    std::filesystem::path ca_file{};
    /// Our own certificate chain and private key in PEM form, where the server asks for them.
    std::filesystem::path certificate_file{};
    std::filesystem::path private_key_file{};
};

struct options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 6379;
    /// The path of a socket; if set, `host` and `port` are not used.
    std::filesystem::path unix_socket{};
    /// Set to talk TLS.
    std::optional<tls_options> tls{};

    /// An ACL user; empty with a password: the default user. A user may need no password.
    std::string username{};
    std::string password{};
    unsigned database = 0;
    /// How the connection is called in the server's CLIENT LIST; empty: not at all.
    std::string client_name = "syncguard";

    /// What all stored keys begin with. It must not contain "fence:" nor end in "fence": locks and
    /// fence counters would get into each other's way. All programs that share locks use the same.
    /// No prefix on a database may be another one with a colon and more behind it (`a` and `a:b`):
    /// such clients may share a lock, but not its fence counter, which is not always detected. With
    /// more than 227 bytes, keys of exactly 22 base64url characters are refused.
    std::string prefix = "syncguard";

    /// How long a connection may take from the name lookup to the end of the greeting.
    milliseconds connect_timeout{5'000};
    /// How long a command may wait for its answer once it was sent. Unset: as long as its call.
    std::optional<milliseconds> command_timeout{};

    /// Lets `is_locked` remove a lock that ended more than two seconds ago by the server's clock.
    /// Redis removes locks by itself when their TTL ends: this is for locks whose writer gave them
    /// a longer one. Fence counters are never removed. With it, `is_locked` writes.
    bool cleanup_in_is_locked = false;
};

/// Reads `redis://[user:password@]host[:port][/database]`, the same with `rediss://` for TLS, or
/// `redis+unix://[user:password@]/path/to/socket`. `%XX` is decoded. Options follow after `?`:
/// `prefix`, `client_name`, `connect_timeout_ms`, `command_timeout_ms`, `cleanup_in_is_locked`
/// (true or false), with a socket `database`, and with TLS `ca_file`, `certificate_file`,
/// `private_key_file`. Throws `lock_error` (invalid_argument) that says what is wrong without
/// repeating the URL.
[[nodiscard]] options parse_url(std::string_view url);

/// One connection, made at the first operation and again when it was lost, serves any number of
/// threads: operations that are ready together travel together. A blocking caller does the I/O
/// itself, for others too; completions may therefore run on a thread that is inside a call of its
/// own. They must not wait for what such a thread may hold.
///
/// A lock's keys are set with the TTL itself, so it is gone from the server at its end; the
/// tolerance that other stores grant has nothing to act on. Fence counters live as long as the
/// server's data does: to keep fences rising across a crash of the server, run it with
/// `appendonly yes` and `appendfsync always`, and do not let it evict keys.
///
/// Failures name the server: `service_unavailable` if it cannot be reached, refuses to serve or the
/// connection breaks; `auth_failed` for credentials, permissions and certificates; `rate_limited`
/// if it has too many clients; `network_timeout` if no answer came in time; `invalid_argument` if a
/// key is reserved (see docs/storage.md) or holds something that is not a lock: what others store
/// under the names of locks and counters is never overwritten.
///
/// An acquisition whose answer was lost, came too late or was not waited for is released in the
/// background by its lock id. The destructor gives such releases up to a second to get through; it
/// also waits for a name lookup of the system that is under way, which cannot be stopped.
class backend : public basic_backend<capabilities> {
  public:
    /// Throws `lock_error` (invalid_argument) for options that cannot be used. Connects to nothing.
    explicit backend(options opts = {}, backend_options common = {});
};

}  // namespace syncguard::redis
