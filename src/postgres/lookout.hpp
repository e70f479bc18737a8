/// Hears of released locks: one connection that listens, and on it a flag for each key that
/// somebody here waits for, by which whoever releases it knows that somebody wants to be told.
#pragma once

#include "connection.hpp"
#include "statements.hpp"
#include "text_list.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace syncguard::postgres {

/// Everything happens on the thread that runs the context.
class lookout final : private connection::listener {
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

        audience() = default;
        audience(const audience&) = delete;
        audience& operator=(const audience&) = delete;
        virtual ~audience() = default;
    };

    /// Makes a connection that tells its listener.
    using connector = std::function<std::shared_ptr<connection>(connection::listener&)>;

    lookout(connector connect, audience& told);
    lookout(const lookout&) = delete;
    lookout& operator=(const lookout&) = delete;
    ~lookout() override;

    enum class prospect { will_be_told, look_again, cannot_be_told };

    /// For somebody who looked at the key, no earlier than `since`, and found it locked.
    [[nodiscard]] prospect watch(const std::string& key, time_point since);

    /// Called when the server's lock table is full: lowers all flags, and raises none for a while.
    void lower_all();

    /// Sends what is to be sent, and ends what took too long or is no longer wanted.
    void step(time_point now);
    [[nodiscard]] time_point next_wakeup() const;
    [[nodiscard]] bool has_work() const { return !keys_.empty() || busy_since_; }

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

    void on_ready() override;
    void on_reply(const row_list& rows) override;
    void on_refused(const refusal& why) override;
    void on_closed(const lock_error& why) override;
    void on_notification(const std::string& number) override;

    void send_changes(time_point now);
    void send(const transaction& what, time_point now);
    [[nodiscard]] text_list take_unwanted(time_point now);
    void take_flag(const std::string& key, watched& what, const row& answer);
    void lose_connection();
    void be_deaf_for(std::chrono::milliseconds pause);
    void hang_up() noexcept;

    const connector connect_;
    audience& told_;
    const lookout_statements sql_;

    std::shared_ptr<connection> wire_;
    bool ready_ = false;
    /// It is known that what is said on the wire stays in one session.
    bool trusted_ = false;
    std::optional<time_point> busy_since_;
    std::map<std::string, watched, std::less<>> keys_;
    time_point deaf_until_{};
    time_point connect_not_before_{};
    time_point next_tidying_ = time_point::max();
};

}  // namespace syncguard::postgres
