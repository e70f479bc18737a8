/// JSON encoding of requests to Firestore, and decoding of its answers. Pure: no I/O.
#pragma once

#include "firestore/document_names.hpp"

#include <syncguard/engine.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::firestore {

/// The time of a document's last change, as the service writes it: the precondition of later
/// changes.
using version = std::string;

struct stored_lock {
    std::string name;
    lock_record record;
    firestore::version version;
};

struct stored_counter {
    std::uint64_t value = 0;
    firestore::version version;
};

/// The documents of a key. The former ones are present only if the key has former names.
struct stored_pair {
    std::optional<stored_lock> lock;
    std::optional<stored_counter> counter;
    std::optional<stored_lock> former_lock;
    std::optional<stored_counter> former_counter;
};

// Bodies of requests.

/// The body of a `commit`, which is executed as a whole or not at all.
struct commit_request {
    std::string body;
    std::size_t writes = 0;
};

/// The body of a `batchGet` for the lock, with its counter if `with_counter`, and for both under
/// their former names.
[[nodiscard]] std::string encode_read(const document_names::pair& names, bool with_counter);

/// The body of a `runQuery` for the locks with this id.
[[nodiscard]] std::string encode_search(std::string_view collection, const lock_id& id);

/// Writes lock and counter, and removes the lock under the former name, if all are unchanged since
/// they were read.
[[nodiscard]] commit_request encode_grant(const document_names::pair& names,
                                          const stored_pair& read, const lock_record& granted);

/// Writes a fence to the counter if that is unchanged since it was read.
[[nodiscard]] commit_request encode_counter(const document_names::pair& names,
                                            const std::optional<stored_counter>& read,
                                            std::string_view key, const fence& last);

/// Changes the expiry of a lock that still has the version `as_read`.
[[nodiscard]] commit_request encode_extension(std::string_view name, std::string_view as_read,
                                              unix_time expires_at);

/// Removes a lock that still has the version `as_read`.
[[nodiscard]] commit_request encode_removal(std::string_view name, std::string_view as_read);

// Answers. These throw `lock_error`: invalid_argument if a document was not written by SyncGuard,
// internal if the answer is invalid or incomplete, and the error that the answer contains.

/// `with_counter` as in the request.
[[nodiscard]] stored_pair decode_read(std::string_view body, const document_names::pair& names,
                                      bool with_counter);
[[nodiscard]] std::vector<stored_lock> decode_search(std::string_view body);

/// The new versions of the written documents, in their order; empty for a removed document.
/// `writes` is the number of writes in the request: an answer with another number of results
/// belongs to another request.
[[nodiscard]] std::vector<version> decode_commit(std::string_view body, std::size_t writes);

/// The service's status for a failure, such as "ABORTED"; empty if the body contains none.
[[nodiscard]] std::string decode_error_status(std::string_view body);

}  // namespace syncguard::firestore
