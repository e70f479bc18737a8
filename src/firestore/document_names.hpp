/// Where locks and fence counters are kept.
#pragma once

#include <syncguard/firestore.hpp>

#include <string>
#include <string_view>

namespace syncguard::firestore {

/// The full names of documents, as the service wants them.
class document_names {
  public:
    /// Throws `lock_error` (invalid_argument) if the project, the database or a collection cannot
    /// be one, or if the collections are the same.
    explicit document_names(const options& store);

    /// What both documents of a key are called.
    struct pair {
        std::string lock;
        std::string counter;
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

/// The id of a lock's document: the storage key, hashed where the service does not take it as it
/// is.
[[nodiscard]] std::string lock_document_id(std::string_view key);

/// The id of the document of that lock's fence counter.
[[nodiscard]] std::string counter_document_id(std::string_view lock_id);

}  // namespace syncguard::firestore
