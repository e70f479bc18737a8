/// The Firestore document names of locks and fence counters.
#pragma once

#include <syncguard/firestore.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace syncguard::firestore {

/// Full resource names.
class document_names {
  public:
    /// Throws `lock_error` (invalid_argument) if the project, the database or a collection has
    /// an invalid name, or if the collections are the same.
    explicit document_names(const options& opts);

    /// The two documents of a key.
    struct pair {
        std::string lock;
        std::string counter;
        /// The documents that earlier versions of this library used for the key; empty if the same.
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

/// The path, relative to the collection, of the document that Google's client libraries return for
/// `collection.doc(name)`: one leading and one trailing slash are removed. Nothing if the libraries
/// or Firestore reject the name.
[[nodiscard]] std::optional<std::string> document_path(std::string_view name);

}  // namespace syncguard::firestore
