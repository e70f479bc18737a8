#include <syncguard/loss.hpp>

#include <utility>

namespace syncguard {

std::string_view to_string(loss_reason reason) noexcept {
    return reason == loss_reason::expired ? "expired" : "not-held";
}

lock_lost::lock_lost(loss_reason reason, const std::string& message, error_context context,
                     std::exception_ptr cause)
    : lock_error(error_code::internal, message, std::move(context), std::move(cause)),
      reason_(reason) {}

}  // namespace syncguard
