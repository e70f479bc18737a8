#include "postgres/connection.hpp"

#include "net/without_signals.hpp"
#include "postgres/server_error.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

namespace syncguard::postgres {

namespace asio = boost::asio;
using asio::use_awaitable;
using std::chrono::steady_clock;

namespace {

/// After this number of transactions the server discards its plans: a plan that was made for empty
/// tables scans them sequentially.
constexpr unsigned transactions_per_plan = 10'000;

const statement& discard_plans() {
    static const statement text{.name = {}, .text = "DISCARD PLANS"};
    return text;
}

struct clearer {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
};

result_rows rows_of(const PGresult& result) {
    const int fields = PQnfields(&result);
    result_rows rows(static_cast<std::size_t>(PQntuples(&result)));
    for (int number = 0; number < PQntuples(&result); ++number) {
        row& values = rows[static_cast<std::size_t>(number)];
        values.resize(static_cast<std::size_t>(fields));
        for (int i = 0; i < fields; ++i) {
            if (PQgetisnull(&result, number, i) != 0) continue;
            const auto length = static_cast<std::size_t>(PQgetlength(&result, number, i));
            values[static_cast<std::size_t>(i)].emplace(PQgetvalue(&result, number, i), length);
        }
    }
    return rows;
}

std::string field(const PGresult& result, int field_code) {
    const char* const text = PQresultErrorField(&result, field_code);
    return text == nullptr ? std::string() : std::string(text);
}

}  // namespace

connection::connection(asio::io_context& context, const server_address& server,
                       net::socket_registry& sockets, listener& callbacks)
    : context_(context),
      server_(server),
      sockets_(sockets),
      listener_(&callbacks),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is made while there is memory for it
      out_of_memory_(error_code::internal,
                     "out of memory on the connection to " + server.server_name),
      resolver_(context),
      socket_(context),
      timer_(context) {}

void connection::open() {
    asio::co_spawn(context_, run(), asio::detached);
}

void connection::close() noexcept {
    closed_ = true;
    listener_ = nullptr;
    end_session();
    try {
        resolver_.cancel();
        timer_.cancel();
    } catch (const std::exception&) {  // they end later and find the connection closed
    }
}

std::string connection::backend_pid() const {
    return std::to_string(PQbackendPID(session_.get()));
}

asio::awaitable<void> connection::run() {
    const auto self = shared_from_this();
    try {
        co_await establish();
        if (closed_) co_return;
        established_ = true;
        attach_socket();
        listener_->on_ready();
        boost::system::error_code problem;
        while (!closed_) {
            auto token = asio::redirect_error(use_awaitable, problem);
            co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read, token);
            if (!closed_) take_input();
        }
    } catch (...) {
        fail(current_failure());
    }
}

// Connecting.

asio::awaitable<void> connection::establish() {
    const auto give_up_at = steady_clock::now() + server_.connect_timeout;
    timer_.expires_at(give_up_at);
    timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& stopped) {
        // A lookup cannot be interrupted, only abandoned.
        if (const auto self = weak.lock(); self && !stopped) self->fail(self->connect_timed_out());
    });
    const auto hosts = co_await resolve();
    std::optional<lock_error> problem;
    for (std::size_t tried = 0; tried < hosts.size() && !closed_; ++tried) {
        // The remaining time is divided among the remaining addresses, so that a dead address
        // leaves time for the others.
        const auto left = give_up_at - steady_clock::now();
        const auto share = left / static_cast<int>(hosts.size() - tried);
        problem = co_await connect_to(hosts[tried], share);
        if (!problem) co_return;
    }
    if (!closed_) throw lock_error(*problem);
}

asio::awaitable<std::vector<host_candidate>> connection::resolve() {
    std::vector<host_candidate> found;
    std::string problem;
    for (const auto& each : server_.candidates) {
        if (each.needs_lookup()) {
            co_await look_up(each, found, problem);
        } else {
            found.push_back(each);
        }
    }
    if (found.empty()) {
        throw lock_error(error_code::service_unavailable,
                         "cannot find the host of " + server_.server_name + ": " + problem);
    }
    co_return found;
}

/// Looked up for each connection, because the name may refer to another server later. Not by libpq,
/// which would block the event loop during the lookup.
asio::awaitable<void> connection::look_up(const host_candidate& named,
                                          std::vector<host_candidate>& found,
                                          std::string& problem) {
    boost::system::error_code failure;
    const net::without_signals token(asio::redirect_error(use_awaitable, failure));
    const auto entries = co_await resolver_.async_resolve(named.host, "", token);
    if (failure) problem = failure.message();
    for (const auto& entry : entries) {
        host_candidate candidate = named;
        candidate.address = entry.endpoint().address().to_string();
        // The resolver returns an address once for each socket type.
        const auto is_same = [&](const host_candidate& other) {
            return other.host == candidate.host && other.address == candidate.address &&
                   other.port == candidate.port;
        };
        if (std::none_of(found.begin(), found.end(), is_same)) found.push_back(candidate);
    }
}

asio::awaitable<std::optional<lock_error>> connection::connect_to(const host_candidate& candidate,
                                                                  steady_clock::duration at_most) {
    std::vector<const char*> keywords;
    std::vector<const char*> values;
    const auto add = [&](const std::string& keyword, const std::string& value) {
        keywords.push_back(keyword.c_str());
        values.push_back(value.c_str());
    };
    const std::array<std::string, 3> names{"host", "hostaddr", "port"};
    if (!candidate.host.empty()) add(names[0], candidate.host);
    if (!candidate.address.empty()) add(names[1], candidate.address);
    if (!candidate.port.empty()) add(names[2], candidate.port);
    for (const auto& [keyword, value] : server_.settings)
        add(keyword, value);
    keywords.push_back(nullptr);
    values.push_back(nullptr);

    end_session();
    {
        // Host names have been resolved, so that libpq does not block here.
        const net::socket_registry::no_fork guard(sockets_);
        session_.reset(PQconnectStartParams(keywords.data(), values.data(), 0));
        if (!session_) throw std::bad_alloc();
        sockets_.add(registered_socket_, PQsocket(session_.get()));
    }
    // Without a processor, notices would go to standard error. Texts of errors may contain names;
    // codes do not.
    PQsetNoticeProcessor(
        session_.get(), [](void*, const char*) {}, nullptr);
    PQsetErrorVerbosity(session_.get(), PQERRORS_SQLSTATE);

    out_of_time_ = false;
    timer_.expires_after(at_most);
    timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& stopped) {
        const auto self = weak.lock();
        // The timer may have expired just before it was set again; then its handler still runs.
        if (stopped || !self || self->established_ || steady_clock::now() < self->timer_.expiry()) {
            return;
        }
        self->out_of_time_ = true;
        boost::system::error_code ignored;
        self->socket_.cancel(ignored);
    });
    const bool connected = co_await poll_until_connected();
    if (closed_) co_return std::nullopt;
    timer_.cancel();
    if (connected) {
        PQsetnonblocking(session_.get(), 1);
        PQenterPipelineMode(session_.get());
        co_return std::nullopt;
    }
    if (out_of_time_) {
        end_session();
        co_return connect_timed_out();
    }
    const std::string message = PQerrorMessage(session_.get());
    end_session();
    co_return to_connection_error(message, server_.server_name);
}

asio::awaitable<bool> connection::poll_until_connected() {
    auto state =
        PQstatus(session_.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (state == PGRES_POLLING_READING || state == PGRES_POLLING_WRITING) {
        attach_socket();
        boost::system::error_code problem;
        auto token = asio::redirect_error(use_awaitable, problem);
        co_await socket_.async_wait(state == PGRES_POLLING_READING
                                        ? asio::posix::stream_descriptor::wait_read
                                        : asio::posix::stream_descriptor::wait_write,
                                    token);
        if (closed_) co_return false;
        detach_socket();
        if (out_of_time_) co_return false;
        state = poll_connection();
    }
    co_return state == PGRES_POLLING_OK;
}

/// libpq may replace the socket.
PostgresPollingStatusType connection::poll_connection() {
    const net::socket_registry::no_fork guard(sockets_);
    const auto state = PQconnectPoll(session_.get());
    sockets_.add(registered_socket_, PQsocket(session_.get()));
    return state;
}

/// Closes the session and its socket.
void connection::end_session() noexcept {
    detach_socket();
    const net::socket_registry::no_fork guard(sockets_);
    sockets_.remove(registered_socket_);
    session_.reset();
}

void connection::attach_socket() {
    const int borrowed = PQsocket(session_.get());
    if (borrowed < 0) throw broken();
    socket_.assign(borrowed);
}

/// Must be called before the session closes its socket.
void connection::detach_socket() noexcept {
    if (!socket_.is_open()) return;
    try {
        socket_.release();
    } catch (const std::exception&) {  // nothing waited for the socket
    }
}

// Transactions.

void connection::send(const transaction& statements, bool named) {
    answer_.clear();
    server_error_.reset();
    try {
        for (const auto& each : statements) {
            const bool is_last = &each == &statements.back();
            send_statement(
                each, named,
                is_last ? pending_result::kind::last_statement : pending_result::kind::statement);
        }
        if (named && ++transactions_since_plan_ > transactions_per_plan) {
            transactions_since_plan_ = 0;
            const bound_statement renewal{&discard_plans(), {}};
            send_statement(renewal, false, pending_result::kind::statement);
        }
        check(PQpipelineSync(session_.get()));
        pending_.push_back({pending_result::kind::sync, {}});
        flush();
    } catch (...) {
        // A part may have been sent, but not the Sync that commits the transaction.
        pending_.clear();
        fail(current_failure());
    }
}

void connection::send_statement(const bound_statement& bound, bool named,
                                pending_result::kind type) {
    std::array<const char*, 8> values{};
    const auto count = std::min(bound.parameters.size(), values.size());
    for (std::size_t i = 0; i < count; ++i)
        values[i] = bound.parameters[i].c_str();
    const auto& sql = *bound.sql;
    const int parameters = static_cast<int>(count);
    if (!named || sql.name.empty()) {
        check(PQsendQueryParams(session_.get(), sql.text.c_str(), parameters, nullptr,
                                values.data(), nullptr, nullptr, 0));
    } else {
        if (!prepared_.contains(sql.name)) {
            check(PQsendPrepare(session_.get(), sql.name.c_str(), sql.text.c_str(), 0, nullptr));
            pending_.push_back({pending_result::kind::prepare, sql.name});
        }
        check(PQsendQueryPrepared(session_.get(), sql.name.c_str(), parameters, values.data(),
                                  nullptr, nullptr, 0));
    }
    pending_.push_back({type, {}});
}

void connection::check(int sent) const {
    if (sent != 1) throw broken();
}

void connection::flush() {
    if (writing_) return;
    const int left = PQflush(session_.get());
    if (left < 0) return;  // The next read reports the end of the connection.
    if (left == 0) return;
    writing_ = true;
    socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                       [weak = weak_from_this()](const boost::system::error_code&) {
                           const auto self = weak.lock();
                           if (!self || self->closed_) return;
                           self->writing_ = false;
                           self->flush();
                       });
}

bool connection::is_alive() {
    const auto self = shared_from_this();
    try {
        pollfd input{.fd = PQsocket(session_.get()), .events = POLLIN, .revents = 0};
        // An error message of the server and the end of the stream need separate reads.
        while (!closed_ && ::poll(&input, 1, 0) > 0)
            take_input();
    } catch (...) {
        fail(current_failure());
    }
    return !closed_;
}

void connection::take_input() {
    const bool alive = PQconsumeInput(session_.get()) == 1;
    if (!alive) {
        // libpq has closed the socket.
        const net::socket_registry::no_fork guard(sockets_);
        sockets_.add(registered_socket_, PQsocket(session_.get()));
    }
    take_results();
    take_notifications();
    if (closed_) return;
    if (!alive || PQstatus(session_.get()) == CONNECTION_BAD) throw broken();
    flush();
}

void connection::take_results() {
    while (!closed_ && !pending_.empty() && PQisBusy(session_.get()) == 0) {
        const std::unique_ptr<PGresult, clearer> result(PQgetResult(session_.get()));
        if (result) {
            take_result(*result);
        } else if (std::exchange(result_seen_, false)) {
            // If the commit itself fails, its error comes before the result of the Sync, which
            // still follows.
            if (pending_.front().type != pending_result::kind::sync) pending_.pop_front();
        } else {
            throw lock_error(error_code::internal,
                             server_.server_name + " gave no answer where one was due");
        }
    }
}

void connection::take_notifications() {
    struct freer {
        void operator()(PGnotify* notification) const noexcept { PQfreemem(notification); }
    };
    while (!closed_) {
        const std::unique_ptr<PGnotify, freer> notification(PQnotifies(session_.get()));
        if (!notification) return;
        listener_->on_notification(notification->extra);
    }
}

void connection::take_result(const PGresult& result) {
    const auto current = pending_.front();
    result_seen_ = true;
    switch (PQresultStatus(&result)) {
        case PGRES_TUPLES_OK:
        case PGRES_COMMAND_OK:
            if (current.type == pending_result::kind::prepare) prepared_.insert(current.prepared);
            if (current.type == pending_result::kind::last_statement) answer_ = rows_of(result);
            return;
        case PGRES_PIPELINE_SYNC:
            result_seen_ = false;
            dispatch_outcome();
            return;
        case PGRES_PIPELINE_ABORTED:
            return;
        case PGRES_FATAL_ERROR: {
            server_error error{.sqlstate = field(result, PG_DIAG_SQLSTATE),
                               .message = field(result, PG_DIAG_MESSAGE_PRIMARY)};
            // An error without a code comes from libpq, after the connection broke.
            if (error.sqlstate.empty()) throw broken();
            if (!server_error_) server_error_ = std::move(error);
            return;
        }
        default:
            throw lock_error(
                error_code::internal,
                server_.server_name + " gave an answer that does not fit the question");
    }
}

void connection::dispatch_outcome() {
    pending_.clear();
    if (server_error_) {
        const server_error error = *std::exchange(server_error_, std::nullopt);
        listener_->on_refused(error);
    } else {
        listener_->on_reply(answer_);
    }
}

void connection::fail(const lock_error& error) {
    if (listener_ == nullptr) return;
    listener& callbacks = *listener_;
    close();
    callbacks.on_closed(error);
}

lock_error connection::current_failure() const {
    try {
        throw;
    } catch (const lock_error& failure) {
        return failure;
    } catch (const std::bad_alloc&) {
        return out_of_memory_;
    } catch (const std::exception& failure) {
        return {error_code::service_unavailable,
                "the connection to " + server_.server_name + " failed: " + failure.what(),
                {},
                std::current_exception()};
    }
}

lock_error connection::connect_timed_out() const {
    return {error_code::network_timeout,
            server_.server_name + " did not complete the connection in time"};
}

lock_error connection::broken() const {
    if (server_error_) return to_lock_error(*server_error_, server_.server_name);
    return {error_code::service_unavailable, "the connection to " + server_.server_name + " broke"};
}

}  // namespace syncguard::postgres
