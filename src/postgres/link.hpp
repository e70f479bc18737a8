/// A connection as its client sees it: with the operation that waits for its answer.
#pragma once

#include "client.hpp"

#include <memory>

namespace syncguard::postgres {

class link final : public connection::listener {
  public:
    link(client& owner, bool for_urgent_ones) : reserved(for_urgent_ones), owner_(owner) {}
    link(const link&) = delete;
    link& operator=(const link&) = delete;
    ~link() override {
        if (wire) wire->close();
    }

    std::shared_ptr<connection> wire;
    const bool reserved;
    bool ready = false;
    bool proved = false;  ///< It has brought an answer.
    /// In the order of the rows that will come.
    operation_list busy_with;
    bool with_many_alike = false;  ///< That is what it is busy with, be it one.
    time_point busy_since{};

    [[nodiscard]] bool is_idle() const noexcept { return ready && busy_with.empty(); }

  private:
    void on_ready() override { ready = true; }
    void on_reply(const row_list& rows) override { owner_.on_reply(*this, rows); }
    void on_refused(const refusal& why) override { owner_.on_refused(*this, why); }
    void on_closed(const lock_error& why, const std::optional<refusal>& refused) override {
        owner_.on_closed(*this, why, refused);
    }

    client& owner_;
};

}  // namespace syncguard::postgres
