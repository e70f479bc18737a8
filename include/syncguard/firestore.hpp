/// Locks on Google's Firestore, shared also with SyncGuard programs in other languages.
#pragma once

#include <syncguard/backend.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace syncguard::firestore {

struct capabilities {
    static constexpr std::string_view backend = "firestore";
    static constexpr bool supports_fencing = true;
    /// Firestore offers no clock to decide by: each client uses its own.
    static constexpr syncguard::time_authority time_authority = syncguard::time_authority::client;
};

/// What happens when this host's clock is proven to differ from the server's by 500 ms or more.
/// From 200 ms there is a warning, in any case. The difference is computed from the Date headers of
/// the server's answers, which have whole seconds: a difference below 1.5 seconds may remain
/// unproven until several answers have arrived. With `refuse` a client therefore asks for the time
/// again before its first grant, which takes about half a second, or up to three seconds if the
/// difference is close to 500 ms. A single answer is no proof: the client asks the server again
/// until two consecutive answers agree. Without a Date header in the answers, clocks cannot be
/// compared: nothing is refused, and there is one warning, except on an emulator.
enum class on_clock_skew {
    warn,
    refuse,  ///< The default. Acquisitions and extensions fail with `service_unavailable`.
};

struct options {
    std::string project{};
    std::string database = "(default)";

    /// The two collections. They must differ, and must be the same in all programs that share
    /// locks.
    std::string locks_collection = "locks";
    std::string fence_counters_collection = "fence_counters";

    /// `host:port` of an emulator: without TLS and without credentials. Empty: the environment
    /// variable FIRESTORE_EMULATOR_HOST, unless `endpoint` is set.
    std::string emulator_host{};
    /// The address of the service if it is not Google's, as `https://host[:port]`; `http://` only
    /// for this host itself.
    std::string endpoint{};
    /// Trusted authorities in PEM form. Empty: those of the system. The server and the token server
    /// must have valid certificates for their names.
    std::filesystem::path ca_file{};

    /// A service account or an authorised user, in Google's JSON form. Empty: the file in the
    /// environment variable GOOGLE_APPLICATION_CREDENTIALS, else the file that `gcloud auth
    /// application-default login` created, else the metadata server of Google's machines.
    std::filesystem::path credentials_file{};

    /// The timeout of a connection attempt, from the name lookup to the end of the TLS handshake.
    milliseconds connect_timeout{5'000};
    /// The maximum number of connections; further requests wait for one. At most 64.
    std::size_t most_connections = 16;

    /// Lets `is_locked` remove a lock that ended more than two seconds ago by this host's clock, in
    /// the background, at most once in ten seconds for a key. Fence counters are never removed.
    /// With this option, `is_locked` writes.
    bool cleanup_in_is_locked = false;

    /// The clock that decides about expiry; inject one to test expiry without waiting. Clients
    /// that share locks must be synchronised.
    wall_clock clock{};
    firestore::on_clock_skew on_clock_skew = firestore::on_clock_skew::refuse;
};

/// Reads `firestore://PROJECT[/DATABASE]`. `%XX` is decoded. Options follow after `?`:
/// `locks_collection`, `fence_counters_collection`, `emulator_host`, `endpoint`, `ca_file`,
/// `credentials_file`, `connect_timeout_ms`, `most_connections`, `cleanup_in_is_locked` (true or
/// false), `on_clock_skew` (warn or refuse). Throws `lock_error` (invalid_argument), whose message
/// does not contain the URL.
[[nodiscard]] options parse_url(std::string_view url);

/// Bounds of the difference between the clocks: positive if the server's clock is ahead of this
/// host's.
struct clock_skew {
    milliseconds at_least{};
    milliseconds at_most{};

    /// The smallest absolute value within the bounds.
    [[nodiscard]] milliseconds proven() const noexcept;
};

inline constexpr milliseconds skew_to_warn_of{200};
inline constexpr milliseconds skew_to_refuse{500};

/// Asks the service for the time repeatedly until the difference is known to a few dozen
/// milliseconds, or as exactly as the round-trip time allows. This takes a second or two and needs
/// no credentials. If `timeout` passes before that, the bounds are wider. Throws `lock_error` if
/// there is no result: the errors of `backend` for unusable options, `network_timeout`, or
/// `service_unavailable` if the service cannot be reached or sends no time (an emulator does not).
[[nodiscard]] clock_skew measure_clock_skew(options opts,
                                            milliseconds timeout = milliseconds{5'000});

/// Connections are made when they are needed, kept for further requests and shared by any number of
/// threads. A blocking caller may do the I/O of all callers; completion handlers may therefore run
/// on a thread that is inside an unrelated call. They must not wait for a mutex or other resource
/// that such a thread may hold.
///
/// An acquisition reads the lock and its fence counter, and writes both in one commit that takes
/// effect only if neither has changed meanwhile; if one has changed, the acquisition reads again. A
/// release or an extension by a lease of this backend needs a single commit; by a lock id alone it
/// begins with a query. If several live locks have the same id, which SyncGuard never creates, such
/// a call warns, fails with `internal` and changes none of them.
///
/// Messages of failures name the server: `service_unavailable` if the server cannot be reached,
/// fails or refuses to serve; `auth_failed` for credentials, permissions and certificates;
/// `rate_limited` if a quota is used up; `network_timeout` if no answer came in time;
/// `invalid_argument` if the server does not accept the request, or if a document was not written
/// by SyncGuard: such a document is never overwritten.
///
/// If the answer to a commit is lost, or is neither success nor a refusal by Firestore, the client
/// reads the documents again to learn the outcome. An acquisition whose outcome remains unknown is
/// undone in the background: its lock is removed, or the fence counter is raised, which makes the
/// commit fail if it is executed later. This is repeated until the server has acknowledged it, at
/// most for the TTL and at most for an hour. The destructor waits up to a second for it; it also
/// waits for a running name lookup of the system, which cannot be stopped.
///
/// A key with slashes is stored in the same document as peers use, if they can have one: a path of
/// subcollections. A release, an extension or a lookup by a lock id alone finds such a lock only in
/// the backend that acquired it (as with peers); a lease knows its key and always finds the lock.
class backend : public basic_backend<capabilities> {
  public:
    /// Throws `lock_error` (invalid_argument) for options or a credentials file that cannot be
    /// used. Opens no connection.
    explicit backend(options opts, backend_options common = {});
};

}  // namespace syncguard::firestore
