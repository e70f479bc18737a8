/// The client of a Redis server: many callers, one connection, operations that travel together.
///
/// It knows how operations of the lock script are sent and answered, not what they mean.
#pragma once

#include "net/socket_registry.hpp"
#include "net/submission_queue.hpp"
#include "redis/connection.hpp"
#include "redis/script_call.hpp"

#include <syncguard/error.hpp>
#include <syncguard/redis.hpp>
#include <syncguard/time.hpp>

#include <boost/asio/ssl/context.hpp>
#include <boost/intrusive/set.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::redis {

using time_point = std::chrono::steady_clock::time_point;

class link;
class operation;

/// Operations that wait for a key to change, by that key.
using lounge = std::multimap<std::string, std::shared_ptr<operation>, std::less<>>;

/// One operation on its way. Its members are called on the thread that drives the client; they do
/// not throw.
class operation : public net::order,
                  public std::enable_shared_from_this<operation>,
                  public boost::intrusive::set_base_hook<> {
  public:
    operation(script_input input, time_point deadline)
        : order(deadline), input_(std::move(input)), final_deadline_(deadline) {}

    /// The end, either way. One of the two is called, once.
    virtual void answer(const script_reply& reply) noexcept = 0;
    virtual void fail(const lock_error& why) noexcept = 0;

    /// What may follow a failure: it was sent, and its caller did not wait for the answer; the
    /// answer came after all; it never will, although the server may have performed the operation.
    virtual void given_up_when_sent() noexcept {}
    virtual void answer_late(const script_reply& /*reply*/) noexcept {}
    virtual void lose() noexcept {}

    /// Whether it is to be sent again when a key changes. It is told each time before it is sent.
    [[nodiscard]] virtual bool lingers(time_point /*now*/) const noexcept { return false; }
    virtual void about_to_be_sent(lease_clock::time_point /*now*/) noexcept {}
    /// After an answer: until when it waits for the key to change before it is sent again, or
    /// nothing if this is the answer. An answer after which it waits stands if no other follows.
    /// May throw `std::bad_alloc`.
    struct patience {
        std::string key;  ///< As the server knows it.
        time_point until;
        /// Whether the server is asked to notify of changes of the key during that time.
        bool watches = true;
    };
    /// `notified`: it was sent again because the server reported a change of the key.
    [[nodiscard]] virtual std::optional<patience> wait_after(const script_reply& /*reply*/,
                                                             bool /*notified*/) {
        return std::nullopt;
    }

    /// It has ended and the client is done with it: whoever is interested may be told.
    virtual void announce() noexcept {}
    /// Whether that calls somebody, who may take some time.
    [[nodiscard]] virtual bool calls_back() const noexcept { return false; }

  protected:
    script_input input_;

  private:
    friend class client;
    struct deadline_of {
        using type = time_point;
        const time_point& operator()(const operation& what) const noexcept {
            return what.deadline_;
        }
    };
    enum class state { waiting, sent, lingering, given_up, ended };

    state state_ = state::waiting;
    /// Others in the same call made the server refuse it: it goes by itself now.
    bool alone_ = false;
    bool admitted_ = false;
    std::uint64_t number_ = 0;  ///< In the order of admission.
    bool has_lingered_ = false;
    bool notified_ = false;  ///< The server told of a change of the key that it waits for.
    lounge::iterator place_in_lounge_;
    link* sent_on_ = nullptr;
    const time_point final_deadline_;
};

using batch = std::vector<std::shared_ptr<operation>>;
using operation_queue = std::deque<std::shared_ptr<operation>>;

/// What one command was sent for.
struct sent_call {
    /// Those of a call of the script, or the one that wants to be told of a key.
    batch operations;
    std::optional<operation::patience> watched{};
    /// Commands that were sent ahead of it so that its key be tracked, and not answered yet.
    unsigned preliminaries = 0;
};

/// Operations that are ready together are sent as one call of the script. Only few calls are under
/// way at a time: what gathers meanwhile makes the next.
///
/// Thread safety: all public members may be called concurrently, unless they say otherwise.
class client : public net::driven {
  public:
    explicit client(options store);
    ~client() override;

    /// Reads the files for TLS, which else happens when they are needed: before any other use, to
    /// know early. Throws `lock_error` (invalid_argument) if they cannot be used.
    void prepare();

    /// Returns when the operation has ended; the calling thread does the I/O if no other does.
    void perform(const std::shared_ptr<operation>& what);

    /// Returns at once. Throws `lock_error` (rate_limited) if too many wait, or `std::system_error`
    /// if no thread can be started; then nothing was begun.
    void start(const std::shared_ptr<operation>& what);

    /// The same at a certain time, for an operation that persists. Only on the thread that drives
    /// the client.
    void start_at(time_point when, std::shared_ptr<operation> what);

    /// Ends an operation with `aborted`, unless it has ended.
    void cancel(std::shared_ptr<operation> what) noexcept;

    /// Waits for operations that persist, for a while, and ends the client's thread. Other
    /// operations have ended. Nothing may be called after it.
    void end(std::chrono::milliseconds patience);

    [[nodiscard]] net::io_driver& driver() noexcept { return desk_.driver(); }
    [[nodiscard]] net::shown_sockets& sockets() noexcept { return shown_sockets_; }

    [[nodiscard]] const std::string& where() const noexcept { return where_; }

  private:
    friend class link;

    wishes step() override;
    [[nodiscard]] sight look() override;
    [[nodiscard]] int socket_to_look_at() const override;
    [[nodiscard]] bool is_answered_from_this_cpu() const override;
    [[nodiscard]] bool has_work() const override;

    void take_news();
    void work_through_news();
    void take_what_was_put_off(time_point now);
    void end_overdue(time_point now);
    void drop_ended_from_waiting();
    void connect_if_needed(time_point now);
    void send_waiting();
    [[nodiscard]] std::pair<std::ptrdiff_t, std::ptrdiff_t> next_call() const;
    void send_batch();
    static void watch(const std::shared_ptr<operation>& what, operation::patience how);
    void set_deadline(operation& what, time_point deadline);
    void drop_idle_links(time_point now);
    void announce_ended();
    [[nodiscard]] time_point next_wakeup(time_point now) const;
    [[nodiscard]] bool is_worth_a_call() const;
    [[nodiscard]] std::size_t tasks_wanted() const;
    [[nodiscard]] operation_queue& queue_of(const operation& op);
    [[nodiscard]] std::size_t queued() const noexcept { return priority_.size() + waiting_.size(); }

    void on_no_connection(const lock_error& why);
    void on_reply(link& which, const resp::value& reply);
    void on_watched(link& which, const resp::value& reply);
    void on_push(const resp::value& news);
    void on_closed(link& which, const lock_error& why);
    void retire(link& which);
    void retire_if_silent(time_point now);
    void retire_after_failover(link& conn);
    void close(link& which, const lock_error& why);
    void take_back(link& which, bool alone);
    void fail_overtaken_extensions(const batch& executed);
    [[nodiscard]] static bool somebody_waits_for(const std::deque<sent_call>& calls);

    void admit(const std::shared_ptr<operation>& what);
    void deliver(const std::shared_ptr<operation>& what, const script_reply& reply);
    void fail(const std::shared_ptr<operation>& what, const lock_error& why);
    void give_up(const std::shared_ptr<operation>& what, const lock_error& why);
    void lose(const std::shared_ptr<operation>& what, const lock_error& why);
    void set_ended(const std::shared_ptr<operation>& what);

    void let_linger(const std::shared_ptr<operation>& what, operation::patience how);
    void resume(operation& what);
    void resume_those_of(const link& deaf);

    const options store_;
    const std::string where_;
    const lock_error out_of_memory_;

    // What any thread may touch.
    std::atomic<bool> hurry_{false};  ///< The end has come, which the next step has to know.
    net::shown_sockets shown_sockets_;

    // What only the driving thread touches. An operation is always in one of these, also if memory
    // runs out in the middle of something.
    std::optional<boost::asio::ssl::context> tls_;
    net::front_desk desk_;
    std::vector<std::shared_ptr<net::task>> news_;
    std::size_t news_taken_ = 0;
    std::vector<std::shared_ptr<net::order>> withdrawn_;
    operation_queue priority_;  ///< To be sent before those that wait.
    operation_queue waiting_;
    boost::intrusive::multiset<operation, boost::intrusive::key_of_value<operation::deadline_of>>
        deadlines_;
    std::multimap<time_point, std::shared_ptr<operation>> later_;
    lounge lounge_;
    std::size_t ended_while_waiting_ = 0;  ///< To be taken out of their queues.
    std::vector<std::shared_ptr<operation>> ended_;
    std::vector<std::shared_ptr<operation>> room_for_ended_;  ///< Empty.
    std::size_t admitted_ = 0;
    std::uint64_t last_number_ = 0;
    std::vector<std::unique_ptr<link>> links_;
    link* current_ = nullptr;  ///< The one that new operations go to.
    bool ending_ = false;      ///< The end has come: nothing is put off for long.
    unsigned failed_connections_ = 0;
    std::optional<lock_error> why_not_connected_;  ///< Until the next attempt.
    time_point connect_not_before_{};
    time_point stay_until_{};  ///< Until then a server that cannot write is not left.
    std::string call_bytes_;
    std::vector<const script_input*> inputs_;
};

}  // namespace syncguard::redis
