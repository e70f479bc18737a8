/// The parts of a backend URL: `scheme:body?option=value&...`.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace syncguard {

/// What every engine's URL has in common. What the body means is the engine's business.
class backend_url {
  public:
    /// Throws `lock_error` (invalid_argument) if there is no scheme or an option is malformed.
    explicit backend_url(std::string_view text);

    /// In lower case.
    [[nodiscard]] const std::string& scheme() const noexcept { return scheme_; }
    /// Between `scheme:` and `?`, not decoded.
    [[nodiscard]] const std::string& body() const noexcept { return body_; }

    [[nodiscard]] const std::map<std::string, std::string>& options() const noexcept {
        return options_;
    }
    /// The whole, as it was given.
    [[nodiscard]] const std::string& text() const noexcept { return text_; }

    /// For engines without options: throws `lock_error` (invalid_argument) naming one.
    void refuse_options() const;

  private:
    std::string text_;
    std::string scheme_;
    std::string body_;
    std::map<std::string, std::string> options_;
};

/// Decodes `%XX`. Throws `lock_error` (invalid_argument) if the digits are missing.
[[nodiscard]] std::string percent_decoded(std::string_view text);

}  // namespace syncguard
