/// The store in Firestore: joins options, client and operations.
#pragma once

#include "firestore/client.hpp"
#include "firestore/lock_operation.hpp"
#include "net/client_engine.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/firestore.hpp>

#include <memory>

namespace syncguard::firestore {

class firestore_engine : public net::client_engine<client, lock_operation> {
  public:
    firestore_engine(options opts, warning_handler on_warning);

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    /// A commit is conditional on the version of the document, which each extension changes.
    [[nodiscard]] bool executes_extensions_in_order() const noexcept override { return true; }

  private:
    [[nodiscard]] std::shared_ptr<lock_operation> make_operation(const request& req,
                                                                 const call_limits& limits,
                                                                 completion handler) override;
};

}  // namespace syncguard::firestore
