#include <syncguard/error.hpp>

#include <utility>

namespace syncguard {

std::string_view to_string(error_code code) noexcept {
    switch (code) {
        case error_code::service_unavailable:
            return "ServiceUnavailable";
        case error_code::auth_failed:
            return "AuthFailed";
        case error_code::invalid_argument:
            return "InvalidArgument";
        case error_code::rate_limited:
            return "RateLimited";
        case error_code::network_timeout:
            return "NetworkTimeout";
        case error_code::acquisition_timeout:
            return "AcquisitionTimeout";
        case error_code::aborted:
            return "Aborted";
        case error_code::internal:
            return "Internal";
    }
    return "Internal";
}

lock_error::lock_error(error_code code, const std::string& message, error_context context,
                       std::exception_ptr cause)
    : std::runtime_error(message),
      code_(code),
      context_(std::make_shared<const error_context>(std::move(context))),
      cause_(std::move(cause)) {}

}  // namespace syncguard
