#include "postgres/server_error.hpp"

#include "postgres/statements.hpp"

#include <algorithm>
#include <array>

namespace syncguard::postgres {

namespace {

struct known_error {
    /// An SQLSTATE, or the beginning of a class.
    std::string_view begins_with;
    error_code code;
    retry_action action;
    std::string_view advice;
};

constexpr std::string_view sqlstate_notify_queue_full = "54000";
constexpr std::string_view try_again = "try again soon";
constexpr std::string_view not_our_tables =
    "the tables are not as SyncGuard makes them; give it names of its own and run 'syncguard setup "
    "--backend URL'";

// The first match counts, so single codes come before their class.
constexpr std::array known_errors{
    known_error{sqlstate_concurrent_change, error_code::service_unavailable, retry_action::retry,
                try_again},
    known_error{"22021", error_code::invalid_argument, retry_action::fail,
                "the database cannot store this key; use one with the encoding UTF8"},
    known_error{"22P05", error_code::invalid_argument, retry_action::fail,
                "the database cannot store this key; use one with the encoding UTF8"},
    known_error{"22", error_code::invalid_argument, retry_action::fail, ""},
    known_error{"23", error_code::invalid_argument, retry_action::fail,
                "the tables have constraints that SyncGuard does not know"},
    known_error{"25006", error_code::service_unavailable, retry_action::reconnect,
                "this server only reads; connect to the primary, or name all hosts and "
                "target_session_attrs=read-write"},
    known_error{"26000", error_code::service_unavailable, retry_action::retry_unprepared,
                try_again},
    known_error{"42P05", error_code::service_unavailable, retry_action::retry_unprepared,
                try_again},
    known_error{"28", error_code::auth_failed, retry_action::fail, "check user and password"},
    known_error{"3F000", error_code::invalid_argument, retry_action::fail,
                "there is no schema of this name; make it first"},
    known_error{"3D000", error_code::invalid_argument, retry_action::fail,
                "there is no database of this name"},
    known_error{sqlstate_serialization_failure, error_code::service_unavailable,
                retry_action::retry, try_again},
    known_error{"40P01", error_code::service_unavailable, retry_action::retry, try_again},
    known_error{"42501", error_code::auth_failed, retry_action::fail,
                "the user needs SELECT, INSERT, UPDATE and DELETE on the tables of SyncGuard, and "
                "CREATE on their schema where they are to be made"},
    known_error{"42703", error_code::invalid_argument, retry_action::fail, not_our_tables},
    known_error{"42804", error_code::invalid_argument, retry_action::fail, not_our_tables},
    known_error{"42809", error_code::invalid_argument, retry_action::fail, not_our_tables},
    known_error{"42883", error_code::invalid_argument, retry_action::fail, not_our_tables},
    known_error{"42P10", error_code::invalid_argument, retry_action::fail, not_our_tables},
    known_error{"42P01", error_code::invalid_argument, retry_action::fail,
                "the tables of SyncGuard are missing; make them with 'syncguard setup --backend "
                "URL' or setup_schema()"},
    known_error{"53300", error_code::rate_limited, retry_action::fail,
                "raise the server's 'max_connections' or use fewer connections"},
    known_error{sqlstate_out_of_shared_memory, error_code::service_unavailable, retry_action::retry,
                "the server's table of locks is full; raise 'max_locks_per_transaction'"},
    known_error{"53", error_code::service_unavailable, retry_action::fail,
                "the server is short of resources; its administrator has to look after it"},
    known_error{sqlstate_notify_queue_full, error_code::service_unavailable, retry_action::retry,
                "the server's queue of notifications is full; pg_listening_channels() and "
                "pg_stat_activity tell whose session does not read them"},
    // We set lock_timeout, to the deadline of the call.
    known_error{"55P03", error_code::network_timeout, retry_action::fail,
                "others who use the same key were in the way for too long; pg_locks and "
                "pg_stat_activity tell who"},
    known_error{
        "57014", error_code::network_timeout, retry_action::fail,
        "the server cancelled the statement at the end of the call, or for an administrator; "
        "pg_locks and pg_stat_activity tell who was in the way"},
    // After such an error the server itself closes the connection.
    known_error{"57P", error_code::service_unavailable, retry_action::outcome_unknown,
                "the server is shutting down or starting up; try again soon"},
    known_error{"08", error_code::service_unavailable, retry_action::outcome_unknown, try_again},
    known_error{"58", error_code::internal, retry_action::outcome_unknown, ""},
};

const known_error* find(std::string_view sqlstate) noexcept {
    const auto* const found = std::find_if(
        known_errors.begin(), known_errors.end(),
        [&](const known_error& each) { return sqlstate.starts_with(each.begins_with); });
    return found == known_errors.end() ? nullptr : found;
}

/// False for classes whose texts quote values that were sent.
bool may_be_quoted(std::string_view sqlstate) noexcept {
    return !sqlstate.starts_with("22") && !sqlstate.starts_with("23");
}

bool is_sqlstate(std::string_view text) noexcept {
    constexpr std::size_t length = 5;
    return text.size() == length && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
           });
}

/// The first line of a message: libpq adds questions in further lines.
std::string_view reason_in(std::string_view message) {
    const auto first_line = message.substr(0, message.find('\n'));
    constexpr std::string_view before_reason = " failed: ";
    const auto at = first_line.find(before_reason);
    return at == std::string_view::npos ? first_line : first_line.substr(at + before_reason.size());
}

std::string_view trimmed_end(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.remove_suffix(1);
    return text;
}

}  // namespace

error_code code_of(std::string_view sqlstate) noexcept {
    const auto* const match = find(sqlstate);
    return match == nullptr ? error_code::internal : match->code;
}

retry_action retry_action_for(std::string_view sqlstate) noexcept {
    const auto* const match = find(sqlstate);
    return match == nullptr ? retry_action::fail : match->action;
}

bool is_shortage(std::string_view sqlstate) noexcept {
    return sqlstate == sqlstate_out_of_shared_memory || sqlstate == sqlstate_notify_queue_full;
}

lock_error to_lock_error(const server_error& error, const std::string& server_name) {
    std::string message = server_name + " answered with the error " + error.sqlstate;
    if (may_be_quoted(error.sqlstate) && !error.message.empty())
        message += " (" + error.message + ")";
    const auto* const match = find(error.sqlstate);
    if (match != nullptr && !match->advice.empty()) message.append(": ").append(match->advice);
    return {code_of(error.sqlstate), message};
}

lock_error to_connection_error(std::string_view libpq_message, const std::string& server_name) {
    const std::string_view text = trimmed_end(libpq_message);
    constexpr std::size_t code_length = 5;
    if (const auto code = text.substr(text.size() - std::min(text.size(), code_length));
        is_sqlstate(code) && text.find(":  ") != std::string_view::npos) {
        return to_lock_error({.sqlstate = std::string(code), .message = {}}, server_name);
    }
    const auto says = [&](std::string_view words) {
        return text.find(words) != std::string_view::npos;
    };
    const std::string message =
        "cannot connect to " + server_name + ": " + std::string(reason_in(text));
    if (says("password") || says("certificate") || says("authentication")) {
        return {error_code::auth_failed, message + "; check user, password and certificates"};
    }
    if (says("invalid port number") || (says("invalid ") && says(" value: "))) {
        return {error_code::invalid_argument, message};
    }
    if (says("does not support SSL")) return {error_code::service_unavailable, message};
    if (says("session is read-only") || says("server is in hot standby mode")) {
        return {error_code::service_unavailable,
                message +
                    "; this server only reads: connect to the primary, or name all hosts "
                    "(target_session_attrs=any lets it answer, too)"};
    }
    if (says("session is") || says("hot standby")) {
        return {error_code::service_unavailable,
                message + "; no server is as 'target_session_attrs' wants it"};
    }
    return {error_code::service_unavailable,
            message + "; is the server running, and is the address right?"};
}

}  // namespace syncguard::postgres
