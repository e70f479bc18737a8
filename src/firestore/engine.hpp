/// The store in Firestore: joins options, client and operations.
#pragma once

#include "../core/fork_guard.hpp"
#include "client.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/firestore.hpp>

#include <memory>

namespace syncguard::firestore {

class firestore_engine : public engine, private fork_participant {
  public:
    firestore_engine(options store, warning_handler on_warning);
    ~firestore_engine() override;

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    [[nodiscard]] outcome perform(const request& what, const call_limits& limits) override;
    void start(const request& what, const call_limits& limits, completion done) noexcept override;

  private:
    // A child would read the answers meant for its parent: it gets a client of its own.
    void before_fork() override {}
    void after_fork_in_parent() override {}
    void after_fork_in_child() override;

    const options store_;
    const access how_;
    const warning_handler on_warning_;
    std::shared_ptr<client> client_;
};

}  // namespace syncguard::firestore
