#include "redis/server_error.hpp"

#include <algorithm>
#include <array>

namespace syncguard::redis {

namespace {

/// The minimal permissions of a Redis user for all operations.
constexpr std::string_view needed_permissions =
    "the user needs permission for the keys of this prefix and for EVAL, EVALSHA, TIME, GET, SET, "
    "DEL, INCR and DECR, and for SELECT where the database is not 0";

/// One kind of error reply.
struct known_error {
    /// Its first word, or the beginning of its text.
    std::string_view begins_with;
    error_code code;
    /// The command was refused before it had any effect, or the operation before it locked.
    bool no_effect;
    std::string_view advice;
};

// The first match counts: the more specific texts of `ERR` come before it.
constexpr std::array known_errors{
    known_error{"NOAUTH", error_code::auth_failed, true, "give a password"},
    known_error{"WRONGPASS", error_code::auth_failed, true, "check user and password"},
    known_error{"NOPERM", error_code::auth_failed, true, needed_permissions},
    // The same from inside the script, which writes the lock last.
    known_error{"ERR The user executing the script can't", error_code::auth_failed, true,
                needed_permissions},
    known_error{"The user executing the script can't", error_code::auth_failed, true,
                needed_permissions},
    known_error{"ERR ACL failure in script", error_code::auth_failed, true, needed_permissions},
    known_error{"DENIED", error_code::auth_failed, true,
                "the server is in protected mode and refuses remote clients; set a password on it"},
    known_error{"WRONGTYPE", error_code::invalid_argument, true,
                "the key holds data of another program; it was left alone"},
    known_error{"FOREIGNVALUE", error_code::invalid_argument, true,
                "the key holds data of another program; it was left alone"},
    known_error{"OVERLAP", error_code::invalid_argument, true,
                "key prefixes overlap: none may be another one with a colon and more behind it; "
                "the stored lock was left alone"},
    known_error{"SYNTAX", error_code::invalid_argument, false, ""},
    known_error{"INVALID", error_code::invalid_argument, false, ""},
    known_error{"CROSSSLOT", error_code::invalid_argument, true,
                "on a cluster all keys must be in one slot: use a prefix with a hash tag, such as "
                "{syncguard}"},
    known_error{"FENCEEND", error_code::internal, true,
                "nothing was locked; use a new key or key prefix"},
    known_error{"READONLY", error_code::service_unavailable, true,
                "this server is a replica; connect to the primary"},
    known_error{"LOADING", error_code::service_unavailable, true,
                "the server is still loading its data; try again soon"},
    known_error{"MASTERDOWN", error_code::service_unavailable, true,
                "the replica has lost its primary"},
    known_error{"MISCONF", error_code::service_unavailable, true,
                "the server cannot save its data; its administrator has to look after it"},
    known_error{"OOM", error_code::service_unavailable, true,
                "the server has reached its 'maxmemory'"},
    known_error{"BUSY", error_code::service_unavailable, true,
                "the server is busy with a long script; try again soon"},
    known_error{"NOREPLICAS", error_code::service_unavailable, true,
                "the server has too few healthy replicas to accept writes"},
    known_error{"TRYAGAIN", error_code::service_unavailable, true, "try again soon"},
    known_error{"CLUSTERDOWN", error_code::service_unavailable, true, "the cluster is down"},
    known_error{"MOVED", error_code::service_unavailable, true,
                "the server is part of a cluster and does not have this key; connect to the node "
                "that does"},
    known_error{"ASK", error_code::service_unavailable, true, "the key is being moved; try again"},
    known_error{"NOSCRIPT", error_code::service_unavailable, true, "try again"},
    known_error{"UNKILLABLE", error_code::service_unavailable, false, ""},
    known_error{"ERR max number of clients", error_code::rate_limited, true,
                "raise the server's 'maxclients' or use fewer clients"},
    known_error{"ERR DB index is out of range", error_code::invalid_argument, true,
                "the server has no database with this number"},
    known_error{"ERR invalid DB index", error_code::invalid_argument, true, ""},
    known_error{"ERR increment or decrement would overflow", error_code::internal, true,
                "the fence counter has reached its end; nothing was locked"},
    known_error{"ERR value is not an integer", error_code::invalid_argument, true,
                "the fence counter's key holds data of another program; it was left alone"},
    known_error{"ERR AUTH", error_code::auth_failed, true, "check user and password"},
    known_error{"ERR Client sent AUTH", error_code::auth_failed, true,
                "the server has no password set"},
};

/// The error in a reply without the place in the script. A server before 7.0 puts that place first:
///   @user_script: 227: -READONLY You can't write against a read only replica.
/// or, if the error has ended the script:
///   ERR Error running script (call to f_SHA1): @user_script:227: @user_script: 227: -OOM command
///   ...
std::string_view without_place(std::string_view reply) noexcept {
    constexpr std::string_view ended = "ERR Error running script (call to f_";
    constexpr std::string_view place = "@user_script:";
    std::string_view error = reply;
    if (error.starts_with(ended)) error.remove_prefix(std::min(error.find(place), error.size()));
    while (error.starts_with(place)) {
        constexpr std::string_view end_of_place = ": ";
        const auto at = error.find(end_of_place, place.size());
        if (at == std::string_view::npos) return reply;
        error.remove_prefix(at + end_of_place.size());
        if (error.starts_with('-')) error.remove_prefix(1);
    }
    if (error.empty()) return reply;
    return error.substr(0, error.find_last_not_of(" \n") + 1);
}

std::string_view first_word(std::string_view reply) noexcept {
    return reply.substr(0, reply.find(' '));
}

const known_error* find(std::string_view whole_reply) noexcept {
    const std::string_view reply = without_place(whole_reply);
    const auto is_of_kind = [&](const known_error& each) {
        const bool is_text = each.begins_with.find(' ') != std::string_view::npos;
        return is_text ? reply.starts_with(each.begins_with)
                       : first_word(reply) == each.begins_with;
    };
    const auto* const found = std::find_if(known_errors.begin(), known_errors.end(), is_of_kind);
    return found == known_errors.end() ? nullptr : found;
}

constexpr std::size_t max_quote_length = 200;

/// The part of a reply that may be quoted: keys and lock ids follow these words.
std::string_view quotable(std::string_view reply) noexcept {
    return reply.substr(0, std::min(reply.find(", with args beginning with"), max_quote_length));
}

}  // namespace

error_code code_of(std::string_view reply) noexcept {
    const auto* const match = find(reply);
    return match == nullptr ? error_code::internal : match->code;
}

bool had_no_effect(std::string_view reply) noexcept {
    const auto* const match = find(reply);
    return match != nullptr && match->no_effect;
}

bool may_be_one_operation(std::string_view reply) noexcept {
    const std::string_view word = first_word(without_place(reply));
    return word == "NOPERM" || word == "CROSSSLOT" || word == "MOVED" || word == "ASK" ||
           word == "TRYAGAIN";
}

bool may_have_failed_over(std::string_view reply) noexcept {
    const std::string_view word = first_word(without_place(reply));
    return word == "READONLY" || word == "MASTERDOWN" || word == "LOADING" ||
           word == "NOREPLICAS" || word == "CLUSTERDOWN";
}

lock_error to_lock_error(std::string_view reply, const std::string& server_name, bool quote) {
    const auto* const match = find(reply);
    std::string message = server_name + " answered ";
    message += quote ? quotable(without_place(reply)) : first_word(reply);
    if (match != nullptr && !match->advice.empty()) message.append(": ").append(match->advice);
    return {code_of(reply), message};
}

}  // namespace syncguard::redis
