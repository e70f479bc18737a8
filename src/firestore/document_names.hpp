/// Where locks and fence counters are kept.
#pragma once

#include <syncguard/firestore.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace syncguard::firestore {

/// The full names of documents, as the service wants them.
class document_names {
  public:
    /// Throws `lock_error` (invalid_argument) if the project, the database or a collection cannot
    /// be one, or if the collections are the same.
    explicit document_names(const options& store);

    /// The two documents of a key.
    struct pair {
        std::string lock;
        std::string counter;
        /// Where former versions of this library kept the same key; empty if at the same place.
        std::string former_lock;
        std::string former_counter;
    };
    [[nodiscard]] pair of(std::string_view key) const;

    /// `projects/.../databases/.../documents`
    [[nodiscard]] const std::string& root() const noexcept { return root_; }
    [[nodiscard]] const std::string& locks_collection() const noexcept { return locks_; }

  private:
    std::string root_;
    std::string locks_;
    std::string counters_;
};

/// What Google's client libraries refer to by `collection.doc(name)`, relative to the collection:
/// the name's segments between slashes, without a slash at the beginning and at the end. Nothing
/// where they or the service refuse the name.
[[nodiscard]] std::optional<std::string> document_path(std::string_view name);

}  // namespace syncguard::firestore
