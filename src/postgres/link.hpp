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
    std::shared_ptr<operation> busy_with;

    [[nodiscard]] bool is_idle() const noexcept { return ready && !busy_with; }

  private:
    void on_ready() override { ready = true; }
    void on_reply(const row& answer) override { owner_.on_reply(*this, answer); }
    void on_refused(const refusal& why) override { owner_.on_refused(*this, why); }
    void on_closed(const lock_error& why, const std::optional<refusal>& refused) override {
        owner_.on_closed(*this, why, refused);
    }
    void on_notification(std::string_view /*payload*/) override {}

    client& owner_;
};

}  // namespace syncguard::postgres
