/// An operation that creates or checks the tables.
#pragma once

#include "postgres/client.hpp"

#include <exception>
#include <memory>
#include <string_view>
#include <utility>

namespace syncguard::postgres {

class schema_operation : public query_operation {
  public:
    /// `kept` owns the objects to which the query refers.
    schema_operation(query asked, time_point deadline, std::shared_ptr<const void> kept)
        : query_operation(std::move(asked), deadline), kept_(std::move(kept)) {}

    void throw_if_failed() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    [[nodiscard]] bool on_response(const row& /*reply*/) noexcept override { return true; }
    void on_error(const lock_error& error) noexcept override {
        failure_ = std::make_exception_ptr(error);
    }
    [[nodiscard]] bool prepare_resend() noexcept override { return true; }
    /// Repeats the query once if a table exists by now: other programs that create the same tables
    /// may not use our advisory lock.
    [[nodiscard]] bool prepare_fallback(std::string_view sqlstate) noexcept override {
        const bool is_there_by_now = sqlstate == "23505" || sqlstate == "42P07";
        return is_there_by_now && !std::exchange(repeated_, true);
    }

    const std::shared_ptr<const void> kept_;
    std::exception_ptr failure_;
    bool repeated_ = false;
};

}  // namespace syncguard::postgres
