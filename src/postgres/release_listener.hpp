/// Listens for releases (LISTEN) on one connection. For each watched key it takes a shared advisory
/// lock, the interest marker; a release sends NOTIFY only if a session holds that lock. Operations
/// may use the same connection, so that a client that only waits needs only one.
#pragma once

#include "postgres/connection.hpp"
#include "postgres/statements.hpp"
#include "postgres/text_list.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace syncguard::postgres {

/// All members are called by the leader of the event loop.
class release_listener final {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    /// The owner, whose operations watch keys.
    class subscriber {
      public:
        virtual void on_released(const std::string& key) = 0;
        /// No key is watched any more, and notifications may have been missed.
        virtual void on_subscription_lost() = 0;
        /// No key is watched any more, and none can be watched for a while.
        virtual void on_unavailable() = 0;
        [[nodiscard]] virtual bool has_watchers(const std::string& key) const = 0;
        /// An idle connection, which the listener then also uses; null if there is none. The client
        /// calls `run_once` again when there may be one.
        [[nodiscard]] virtual std::shared_ptr<connection> connection_for_listener() = 0;
        /// Whether the connection of the listener is idle.
        [[nodiscard]] virtual bool connection_is_free() const = 0;

        subscriber() = default;
        subscriber(const subscriber&) = delete;
        subscriber& operator=(const subscriber&) = delete;
        virtual ~subscriber() = default;
    };

    explicit release_listener(subscriber& subscribed) : subscriber_(subscribed) {}
    release_listener(const release_listener&) = delete;
    release_listener& operator=(const release_listener&) = delete;
    ~release_listener() { disconnect(); }

    enum class watch_result { watching, retry_now, unavailable };

    /// Watches a key for an operation that was sent at `since` and found the key locked.
    /// `retry_now`: there was a notification after `since`.
    [[nodiscard]] watch_result watch(const std::string& key, time_point since);

    /// Called when the server's lock table is full: removes all interest markers, and adds none for
    /// a while.
    void remove_all_interest();

    /// Reports all watched keys as possibly released. Called after a transaction on the listener's
    /// connection that may have released a lock: its session holds the interest markers itself, so
    /// it does not notify itself.
    void recheck_all();

    /// Ends the connection. The operations that watch keys are sent again; if they find their keys
    /// locked, these are watched on another connection.
    void lose_connection();
    /// Ends the connection; no key is watched during `pause`.
    void disable_for(std::chrono::milliseconds pause);

    /// Adds and removes markers; ends the connection if a reply takes too long.
    void run_once(time_point now);
    [[nodiscard]] time_point next_wakeup(time_point now) const;
    [[nodiscard]] bool has_outstanding_work() const { return !keys_.empty() || sent_at_; }
    [[nodiscard]] bool needs_connection(time_point now) const;
    [[nodiscard]] bool has_connection() const noexcept { return conn_ != nullptr; }
    /// When the listener sent its statement that is in flight; nothing if there is none.
    [[nodiscard]] const std::optional<time_point>& sent_at() const noexcept { return sent_at_; }

    // Callbacks of the connection: replies to the listener, its end, and notifications.
    void on_reply(const result_rows& rows);
    void on_refused();
    void on_closed();
    void on_notification(const std::string& number);

  private:
    struct watched {
        bool is_registered = false;
        bool is_pending = false;  ///< The request for its marker is in flight.
        std::string number;       ///< The payload of notifications of the key.
        /// When the server first refused the marker because another session held it exclusively,
        /// for instance during a release.
        std::optional<time_point> refused_since{};
        time_point retry_at{};
        time_point last_event_at{};
        time_point last_wanted_at{};
    };

    void send_changes(time_point now);
    void send(const transaction& statements, time_point now);
    [[nodiscard]] text_list remove_unwatched(time_point now);
    void on_interest_reply(const std::string& key, watched& entry, const row& answer);
    void disconnect() noexcept;

    subscriber& subscriber_;
    const listener_sql sql_;

    std::shared_ptr<connection> conn_;
    /// The connection is known to stay in one session (no pooler).
    bool session_verified_ = false;
    bool was_same_session_ = false;  ///< Result of the first of two checks.
    std::optional<time_point> sent_at_;
    std::map<std::string, watched, std::less<>> keys_;
    time_point disabled_until_{};
    time_point next_connect_at_{};
    time_point next_sweep_ = time_point::max();
};

}  // namespace syncguard::postgres
