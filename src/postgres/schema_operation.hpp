/// Making the tables, on its way through the client.
#pragma once

#include "client.hpp"
#include "schema.hpp"

#include <exception>
#include <memory>
#include <vector>

namespace syncguard::postgres {

class schema_operation : public operation {
  public:
    schema_operation(std::shared_ptr<const std::vector<statement>> sql, time_point deadline)
        : operation(steps_of(*sql), deadline), sql_(std::move(sql)) {}

    void throw_if_failed() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    static transaction steps_of(const std::vector<statement>& sql) {
        transaction steps;
        for (const auto& each : sql)
            steps.push_back({&each, {}});
        return steps;
    }
    void answer(const row& /*reply*/) noexcept override {}
    void fail(const lock_error& why) noexcept override { failure_ = std::make_exception_ptr(why); }
    [[nodiscard]] bool ask_again() noexcept override { return true; }

    const std::shared_ptr<const std::vector<statement>> sql_;
    std::exception_ptr failure_;
};

}  // namespace syncguard::postgres
