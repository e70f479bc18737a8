/// The client of a PostgreSQL server: many callers, a few connections, one transaction on each,
/// with one operation in it or many alike.
///
/// It knows how transactions are sent and answered, not what they mean.
#pragma once

#include "net/socket_registry.hpp"
#include "net/submission_queue.hpp"
#include "postgres/canceller.hpp"
#include "postgres/connection.hpp"
#include "postgres/greeting.hpp"
#include "postgres/query.hpp"
#include "postgres/release_listener.hpp"
#include "postgres/server_address.hpp"
#include "postgres/statements.hpp"

#include <syncguard/error.hpp>
#include <syncguard/lock_id.hpp>
#include <syncguard/postgres.hpp>
#include <syncguard/time.hpp>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace syncguard::postgres {

using time_point = std::chrono::steady_clock::time_point;

class link;

class operation;

/// Those who wait until they hear of a key.
using lounge = std::multimap<std::string, operation*, std::less<>>;

/// Something on the server that a call may wait for: the right to acquire a key, or the row of a
/// lock id.
struct lane {
    bool of_key;
    std::string_view name;
    [[nodiscard]] auto operator<=>(const lane&) const = default;
};

struct in_lane;
using lane_hook = boost::intrusive::set_base_hook<boost::intrusive::tag<in_lane>>;

struct in_queue;
using queue_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<in_queue>>;
/// A place in it costs no memory, so that an operation can always go back there.
using operation_queue = boost::intrusive::list<operation, boost::intrusive::base_hook<queue_hook>>;

/// One operation on its way. Its members are called on the thread that drives the client; they do
/// not throw.
class operation : public net::order,
                  public std::enable_shared_from_this<operation>,
                  public boost::intrusive::set_base_hook<>,
                  public lane_hook,
                  public queue_hook {
  public:
    operation(call what, time_point deadline)
        : order(deadline), call_(std::move(what)), final_deadline_(deadline) {}

    /// The end, either way: one that is not false, once. False if the row is no answer yet, and the
    /// call has to wait its turn on the server.
    [[nodiscard]] virtual bool answer(const row& reply) noexcept = 0;
    virtual void fail(const lock_error& why) noexcept = 0;

    /// A call that has a deadline is not performed later than this, by the server's clock.
    virtual void about_to_be_sent(unix_time /*server_deadline*/) noexcept {}

    /// Whether it would rather wait for a key than be answered that it cannot have it.
    [[nodiscard]] virtual bool lingers(time_point /*now*/) const noexcept { return false; }

    /// For which key, and until when it waits to hear of it before it is sent again; nothing if
    /// this is the answer. An answer after which it waits stands if no other follows. May throw
    /// `std::bad_alloc`.
    struct patience {
        std::string key;
        time_point until;
    };
    [[nodiscard]] virtual std::optional<patience> wait_after(const row& /*reply*/) {
        return std::nullopt;
    }

    /// After a failure: the answer came after all.
    virtual void answer_late(const row& /*reply*/) noexcept {}

    /// The connection broke before an answer came: the server may have performed it or not. True if
    /// sending it again, or something else that was put in its place, tells the truth.
    [[nodiscard]] virtual bool ask_again() noexcept { return false; }

    /// The server has refused it. True if it was changed, or the server, so that it may be sent
    /// again.
    [[nodiscard]] virtual bool has_another_way(std::string_view sqlstate) noexcept;

    /// After a failure: the server may have performed it nevertheless.
    virtual void lose() noexcept {}

    /// It has ended and the client is done with it: whoever is interested may be told.
    virtual void announce() noexcept {}

    /// What its answer, which came at `now`, says of one lock: that it ends at `at` at the latest,
    /// or in the past if it is not held.
    struct end_of_lock {
        lock_id id;
        time_point at;
    };
    [[nodiscard]] virtual std::optional<end_of_lock> known_end_of_lock(
        time_point /*now*/) const noexcept {
        return std::nullopt;
    }

    /// Whether a connection is kept for its kind.
    [[nodiscard]] virtual bool is_urgent() const noexcept { return false; }

  protected:
    [[nodiscard]] time_point final_deadline() const noexcept { return final_deadline_; }

    call call_;

  private:
    friend class client;
    struct deadline_of {
        using type = time_point;
        const time_point& operator()(const operation& what) const noexcept {
            return what.deadline_;
        }
    };
    /// The order in which the members of lanes are sent.
    struct goes_before {
        bool operator()(const operation& a, const operation& b) const noexcept;
        bool operator()(const operation& a, const lane& b) const noexcept;
        bool operator()(const lane& a, const operation& b) const noexcept;
    };
    struct lane_of {
        using type = lane;
        lane operator()(const operation& what) const noexcept { return what.its_lane(); }
    };
    enum class state { waiting, sent, lingering, pausing, ended };

    [[nodiscard]] bool may_free_a_key() const noexcept;
    /// Whether it may wait on the server for long. Only one operation of each lane does so at a
    /// time, and none on the connection that is kept for extensions, except extensions.
    [[nodiscard]] bool needs_lane() const noexcept;
    [[nodiscard]] lane its_lane() const noexcept;

    state state_ = state::waiting;
    /// From its admission to its end: the client keeps it.
    std::shared_ptr<operation> self_;
    operation_queue* queue_ = nullptr;
    /// It waits until another operation leaves its lane, and is in no queue meanwhile.
    bool is_held_back_ = false;
    /// It goes by itself now: it has to wait its turn, or others in its transaction were refused.
    bool alone_ = false;
    std::uint64_t turn_ = 0;
    unsigned repetitions_ = 0;
    unsigned collisions_ = 0;  ///< With others, by which the server did nothing.
    link* sent_on_ = nullptr;
    lounge::iterator place_in_lounge_;
    const time_point final_deadline_;
};

using operation_list = std::vector<std::shared_ptr<operation>>;

/// Thread safety: all public members may be called concurrently, unless they say otherwise.
class client : public net::driven, private lookout::audience {
  public:
    /// Statements of calls have placeholders for the tables, and live as long as the client.
    explicit client(const options& store);
    ~client() override;

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

    [[nodiscard]] const std::string& where() const noexcept { return target_.where; }

  private:
    friend class link;
    wishes step() override;
    [[nodiscard]] bool has_work() const override;

    void take_news();
    void work_through_news();
    void take_what_was_put_off(time_point now);
    void end_overdue(time_point now);
    void send_waiting();
    void send(link& on, operation_queue& from);
    static void gather(link& on, operation_queue& from);
    [[nodiscard]] std::size_t lists_under_way() const;
    [[nodiscard]] const statement& qualified(const statement& text);
    [[nodiscard]] operation_queue& queue_of(const operation& what);
    void connect_if_needed(time_point now);
    void connect(bool reserved);
    void announce_ended();
    [[nodiscard]] time_point next_wakeup(time_point now) const;
    [[nodiscard]] std::size_t tasks_wanted() const;
    [[nodiscard]] link* idle_link(bool reserved) const;
    [[nodiscard]] link* usable_link(bool reserved);
    [[nodiscard]] link* listening_link() const;
    [[nodiscard]] time_point listening_link_is_free_by() const;
    [[nodiscard]] bool may_use_listening_link(const operation& next) const;
    [[nodiscard]] link* usable_listening_link(const operation& next);
    void look_after_listening_link(time_point now);
    [[nodiscard]] bool gives_up_connections(time_point now);
    void remember_end_of_lock(const operation& what) noexcept;
    void greet(link& which);
    void end_silent_greetings(time_point now);
    [[nodiscard]] operation_queue* next_queue(bool may_wait_for_long = true);
    [[nodiscard]] bool pool_waits_for_others() const;
    [[nodiscard]] bool wants_reserved_link() const;
    [[nodiscard]] bool somebody_waits() const;

    void on_reply(link& which, const row_list& rows);
    void on_greeted(link& which, const row_list& rows);
    void take_answer(const std::shared_ptr<operation>& what, const row& answer, time_point sent_at);
    void on_refused(link& which, const refusal& why);
    void on_closed(link& which, const lock_error& why);
    void on_no_connection(const lock_error& why);
    void refuse(const operation_list& all, const refusal& why);
    void repeat_later(const std::shared_ptr<operation>& what, const lock_error& why);
    void lose(const operation_list& all, const lock_error& why);
    void close(link& which);
    void drain(link& which, bool may_cancel_now);
    void end_draining(link& which);
    void look_after_draining(time_point now);
    void cancel_work(link& which);
    void close_idle_links();

    void admit(const std::shared_ptr<operation>& what);
    void withdraw(const std::shared_ptr<operation>& what);
    void enqueue(operation& what, bool first) noexcept;
    void put_in_queue(operation& what, bool first) noexcept;
    static void dequeue(operation& what) noexcept;
    [[nodiscard]] bool enter_lane(operation& what) noexcept;
    void leave_lane(operation& what) noexcept;
    void set_deadline(operation& what, time_point deadline);
    void bring_forward(operation& what, time_point deadline);
    void fail(const std::shared_ptr<operation>& what, const lock_error& why);
    void give_up(const std::shared_ptr<operation>& what, const lock_error& why);
    void set_ended(const std::shared_ptr<operation>& what);

    void look_again(const std::string& key) override;
    void look_again_at_everything() override;
    void expect_nothing() override;
    [[nodiscard]] bool still_awaits(const std::string& key) const override;
    [[nodiscard]] std::shared_ptr<connection> connection_for_lookout() override;
    [[nodiscard]] bool connection_is_free() const override;
    void let_linger(operation& what, const operation::patience& how, time_point sent_at);
    void resume(operation& what) noexcept;

    const target target_;
    const table_pair named_tables_;
    const std::size_t pool_size_;
    const std::optional<milliseconds> statement_timeout_;

    // What any thread may touch.
    std::atomic<bool> hurry_{false};  ///< The end has come, which the next step has to know.
    net::shown_sockets shown_sockets_;

    // What only the driving thread touches. Whatever fails in the middle of something, an operation
    // is in a queue, in the lounge, on a link, or has ended.
    net::front_desk desk_;
    std::vector<std::shared_ptr<net::task>> news_;
    std::size_t news_taken_ = 0;
    std::vector<std::shared_ptr<net::order>> withdrawn_;
    operation_queue waiting_;
    operation_queue lone_;  ///< Operations that may wait on the server for long.
    operation_queue urgent_;
    operation_queue releases_;  ///< Releases that may share a transaction.
    operation_queue alike_;     ///< Other operations that may share a transaction.
    /// For each lane the operation that may be sent, from its place in a queue to its end.
    boost::intrusive::set<operation, boost::intrusive::base_hook<lane_hook>,
                          boost::intrusive::key_of_value<operation::lane_of>>
        lanes_;
    /// The other operations of the lanes, which use no connection.
    boost::intrusive::multiset<operation, boost::intrusive::base_hook<lane_hook>,
                               boost::intrusive::compare<operation::goes_before>>
        held_back_;
    std::uint64_t turns_ = 0;
    boost::intrusive::multiset<operation, boost::intrusive::key_of_value<operation::deadline_of>>
        deadlines_;
    std::multimap<time_point, std::shared_ptr<operation>> later_;
    std::vector<std::shared_ptr<operation>> ended_;
    std::size_t admitted_ = 0;
    std::vector<std::unique_ptr<link>> links_;
    canceller canceller_;
    /// The tables that were found first: another search path or new tables change nothing.
    located_tables tables_;
    const settings_statements settings_;
    /// Some session has other settings: its greeting showed them, or there was a conflict that only
    /// a stricter isolation causes. From then on all transactions set their own settings, since
    /// behind a pooler each transaction may use another session.
    bool sets_settings_ = false;
    /// Statements about these tables.
    std::map<const statement*, statement> qualified_;
    lounge lounge_;
    lookout lookout_;
    /// There has been one: a connection is kept for the next, before it finds none free.
    bool extensions_come_ = false;
    time_point keep_one_not_before_{};
    /// The server had no connection left a short time ago.
    time_point crowded_until_{};
    /// When the locks that were granted or extended end at the latest, unless their release was
    /// answered. Locks that have ended remain until they are looked at.
    std::map<lock_id, time_point> ends_of_locks_;
    std::size_t most_ends_of_locks_ = 0;  ///< With so many, those that have ended are removed.
    bool ending_ = false;                 ///< The end has come: nothing is put off for long.
    /// Until a pooler shows that what was prepared is not there the next time.
    bool named_statements_ = true;
    unsigned failed_connections_ = 0;
    std::optional<lock_error> why_not_connected_;
    time_point connect_not_before_{};
};

}  // namespace syncguard::postgres
