/// Hears of released locks: on one connection of the client it listens, and has a flag for each key
/// that an operation of the client waits for, by which the client that releases the key knows that
/// it has to notify. Operations use the same connection, so that a client that waits needs only
/// one.
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

/// Everything happens on the thread that runs the context.
class lookout final {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    /// Who wants to know.
    class audience {
      public:
        virtual void look_again(const std::string& key) = 0;
        /// Nothing is watched any more, and something may have been missed.
        virtual void look_again_at_everything() = 0;
        /// Nothing is watched any more, nor can be for a while.
        virtual void expect_nothing() = 0;
        [[nodiscard]] virtual bool still_awaits(const std::string& key) const = 0;
        /// An idle connection, which is the lookout's from then on; null if there is none now. The
        /// lookout is asked again by a call of `step` when there may be one.
        [[nodiscard]] virtual std::shared_ptr<connection> connection_for_lookout() = 0;
        /// Whether no operation is under way on that connection.
        [[nodiscard]] virtual bool connection_is_free() const = 0;

        audience() = default;
        audience(const audience&) = delete;
        audience& operator=(const audience&) = delete;
        virtual ~audience() = default;
    };

    explicit lookout(audience& told) : told_(told) {}
    lookout(const lookout&) = delete;
    lookout& operator=(const lookout&) = delete;
    ~lookout() { hang_up(); }

    enum class prospect { will_be_told, look_again, cannot_be_told };

    /// For somebody who looked at the key, no earlier than `since`, and found it locked.
    [[nodiscard]] prospect watch(const std::string& key, time_point since);

    /// Called when the server's lock table is full: lowers all flags, and raises none for a while.
    void lower_all();

    /// Keys may have become free by a transaction on its own connection, which does not notify its
    /// own session.
    void look_again_at_all();

    /// Ends the connection. Waiting operations are sent again, and a key that they find locked is
    /// watched on another connection.
    void lose_connection();
    /// Ends the connection; nothing is watched until that time is over.
    void be_deaf_for(std::chrono::milliseconds pause);

    /// Sends what is to be sent, and ends what took too long or is no longer wanted.
    void step(time_point now);
    [[nodiscard]] time_point next_wakeup(time_point now) const;
    [[nodiscard]] bool has_work() const { return !keys_.empty() || busy_since_; }
    [[nodiscard]] bool needs_connection(time_point now) const;
    [[nodiscard]] bool has_connection() const noexcept { return wire_ != nullptr; }
    /// Since when an answer to the lookout is under way on its connection.
    [[nodiscard]] const std::optional<time_point>& busy_since() const noexcept {
        return busy_since_;
    }

    // What the connection tells: answers to the lookout, its end, and notifications.
    void on_reply(const row_list& rows);
    void on_refused();
    void on_closed();
    void on_notification(const std::string& number);

  private:
    struct watched {
        bool is_flagged = false;
        bool is_asked_for = false;  ///< The flag is under way.
        std::string number;         ///< In notifications.
        /// When the flag was first refused because another session held it, for instance a release
        /// under way.
        std::optional<time_point> refused_since{};
        time_point ask_not_before{};
        time_point last_news{};
        time_point last_wanted{};
    };

    void send_changes(time_point now);
    void send(const transaction& what, time_point now);
    [[nodiscard]] text_list take_unwanted(time_point now);
    void take_flag(const std::string& key, watched& what, const row& answer);
    void hang_up() noexcept;

    audience& told_;
    const lookout_statements sql_;

    std::shared_ptr<connection> wire_;
    /// It is known that what is said on the wire stays in one session.
    bool trusted_ = false;
    bool was_same_session_ = false;  ///< At the first of two questions.
    std::optional<time_point> busy_since_;
    std::map<std::string, watched, std::less<>> keys_;
    time_point deaf_until_{};
    time_point connect_not_before_{};
    time_point next_tidying_ = time_point::max();
};

}  // namespace syncguard::postgres
