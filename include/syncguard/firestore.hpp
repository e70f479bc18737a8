/// Locks shared through Google's Firestore, also with SyncGuard programs in other languages.
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
    /// Firestore has no clock to ask: each client goes by its own.
    static constexpr syncguard::time_authority time_authority = syncguard::time_authority::client;
};

/// What happens when this host's clock is proven to differ from the server's by 500 ms or more.
/// From 200 ms there is a warning, in any case. The proof is in the server's answers, which tell
/// whole seconds: a difference below a second and a half may remain unproven until several answers
/// have come. With `refuse` a client therefore asks for the time again before its first grant,
/// which takes about half a second, or up to three if the difference is close to 500 ms. A single
/// answer proves nothing: the client asks the server again until two answers in a row agree.
/// Without a Date header in the answers, clocks cannot be compared: nothing is refused, and there
/// is one warning, except on an emulator.
enum class on_clock_skew {
    warn,
    refuse,  ///< The default. Acquisitions and extensions fail with `service_unavailable`.
};

struct options {
    std::string project{};
    std::string database = "(default)";

    /// The two collections. They must differ, and all programs that share locks use the same.
    std::string locks_collection = "locks";
    std::string fence_counters_collection = "fence_counters";

    /// `host:port` of an emulator: without TLS and without credentials. Empty: that of the
    /// environment's FIRESTORE_EMULATOR_HOST, unless `endpoint` is set.
    std::string emulator_host{};
    /// Where else than at Google the service is, as `https://host[:port]`; `http://` only for this
    /// host itself.
    std::string endpoint{};
    /// Trusted authorities in PEM form. Empty: those of the system. The server and the token server
    /// must have valid certificates for their names.
    std::filesystem::path ca_file{};

    /// A service account or an authorised user, in Google's JSON form. Empty: the file that the
    /// environment's GOOGLE_APPLICATION_CREDENTIALS names, else the one that `gcloud auth
    /// application-default login` made, else the metadata server of Google's machines.
    std::filesystem::path credentials_file{};

    /// How long a connection may take, from the name lookup to the end of the TLS handshake.
    milliseconds connect_timeout{5'000};
    /// Connections at a time; further requests wait for one. At most 64.
    std::size_t most_connections = 16;

    /// Lets `is_locked` remove a lock that ended more than two seconds ago by this host's clock,
    /// in the background, at most once in ten seconds for a key. Fence counters are never removed.
    /// With it, `is_locked` writes.
    bool cleanup_in_is_locked = false;

    /// The clock that decides about expiry; inject one to test expiry without waiting. Clients
    /// that share locks must be synchronised.
    wall_clock clock{};
    firestore::on_clock_skew on_clock_skew = firestore::on_clock_skew::refuse;
};

/// Reads `firestore://PROJECT[/DATABASE]`. `%XX` is decoded. Options follow after `?`:
/// `locks_collection`, `fence_counters_collection`, `emulator_host`, `endpoint`, `ca_file`,
/// `credentials_file`, `connect_timeout_ms`, `most_connections`, `cleanup_in_is_locked` (true or
/// false), `on_clock_skew` (warn or refuse). Throws `lock_error` (invalid_argument) that says what
/// is wrong without repeating the URL.
[[nodiscard]] options parse_url(std::string_view url);

/// How far the server's clock is ahead of this host's (behind, if negative): somewhere between the
/// two.
struct clock_skew {
    milliseconds at_least{};
    milliseconds at_most{};

    /// The smallest difference that explains what was seen, without its sign.
    [[nodiscard]] milliseconds proven() const noexcept;
};

inline constexpr milliseconds skew_to_warn_of{200};
inline constexpr milliseconds skew_to_refuse{500};

/// Asks the service for the time again and again until the difference is known to a few dozen
/// milliseconds, or as closely as its distance allows, which takes a second or two; no credentials
/// are needed. If that does not come about, the bounds are as wide as what was learned leaves them.
/// Throws `lock_error` if nothing was: what `backend` throws for unusable options,
/// `network_timeout`, or `service_unavailable` if the service cannot be reached or does not tell
/// the time, as an emulator does not.
[[nodiscard]] clock_skew measure_clock_skew(options opts,
                                            milliseconds timeout = milliseconds{5'000});

/// Connections are made when they are needed, kept for further requests and shared by any number of
/// threads. A blocking caller does the I/O itself, for others too; completions may therefore run on
/// a thread that is inside a call of its own. They must not wait for what such a thread may hold.
///
/// An acquisition reads the lock and its fence counter, and writes both in one commit that takes
/// effect only if neither has changed meanwhile; where one has, it reads again. A release or an
/// extension by the lease that was granted here needs a single commit; by a mere lock id it begins
/// with a query. If several live locks have one id, which SyncGuard never brings about, such a call
/// warns, fails with `internal` and touches none.
///
/// Failures name the server: `service_unavailable` if it cannot be reached, fails or refuses to
/// serve; `auth_failed` for credentials, permissions and certificates; `rate_limited` if a quota is
/// used up; `network_timeout` if no answer came in time; `invalid_argument` if it does not accept
/// what was asked, or a document is not what SyncGuard writes: such a document is never
/// overwritten.
///
/// A commit whose answer was lost, or was anything else than success or a refusal of Firestore, is
/// looked after by reading again. An acquisition whose outcome is unknown at its end is undone in
/// the background: its lock is removed, or the fence counter is raised, which makes a commit fail
/// that is executed later. That is repeated until the server has acknowledged it, at most for the
/// TTL and at most for an hour. The destructor gives it up to a second to get through; it also
/// waits for a name lookup of the system that is under way, which cannot be stopped.
///
/// A key with slashes has the document that peers have for it, where they can have one: a path of
/// subcollections. A release, an extension or a lookup by a mere lock id finds such a lock only in
/// the backend that acquired it (as with peers); a lease knows its key and always finds it.
class backend : public basic_backend<capabilities> {
  public:
    /// Throws `lock_error` (invalid_argument) for options, or a credentials file, that cannot be
    /// used. Connects to nothing.
    explicit backend(options opts, backend_options common = {});
};

}  // namespace syncguard::firestore
