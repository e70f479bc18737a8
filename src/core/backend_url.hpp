/// The parts of a backend URL: `scheme:body?option=value&...`.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace syncguard {

/// The syntax that all backend URLs share. Engines interpret the body.
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
    /// The unchanged URL.
    [[nodiscard]] const std::string& text() const noexcept { return text_; }

    /// For engines without options: if there are options, throws `lock_error` (invalid_argument)
    /// that names one of them.
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
