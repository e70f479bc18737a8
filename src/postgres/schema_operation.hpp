/// Making or trying the tables, on its way through the client.
#pragma once

#include "postgres/client.hpp"

#include <exception>
#include <memory>
#include <string_view>
#include <utility>

namespace syncguard::postgres {

class schema_operation : public operation {
  public:
    /// `kept` is what the call refers to.
    schema_operation(call what, time_point deadline, std::shared_ptr<const void> kept)
        : operation(std::move(what), deadline), kept_(std::move(kept)) {}

    void throw_if_failed() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    [[nodiscard]] bool answer(const row& /*reply*/) noexcept override { return true; }
    void fail(const lock_error& why) noexcept override { failure_ = std::make_exception_ptr(why); }
    [[nodiscard]] bool ask_again() noexcept override { return true; }
    /// Others who make the same tables may not know how to wait for us.
    [[nodiscard]] bool has_another_way(std::string_view sqlstate) noexcept override {
        const bool is_there_by_now = sqlstate == "23505" || sqlstate == "42P07";
        return is_there_by_now && !std::exchange(repeated_, true);
    }

    const std::shared_ptr<const void> kept_;
    std::exception_ptr failure_;
    bool repeated_ = false;
};

}  // namespace syncguard::postgres
