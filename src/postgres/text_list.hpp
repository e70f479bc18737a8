/// A list of texts as a PostgreSQL array literal. Pure.
#pragma once

#include <string>
#include <string_view>

namespace syncguard::postgres {

class text_list {
  public:
    void add(std::string_view element) {
        elements_.append(elements_.empty() ? "\"" : ",\"");
        for (const char each : element) {
            if (each == '"' || each == '\\') elements_.push_back('\\');
            elements_.push_back(each);
        }
        elements_.push_back('"');
    }
    [[nodiscard]] bool empty() const noexcept { return elements_.empty(); }
    [[nodiscard]] std::string text() const { return "{" + elements_ + "}"; }

  private:
    std::string elements_;
};

}  // namespace syncguard::postgres
