#include "redis/resp/value.hpp"

namespace syncguard::redis::resp {

namespace {
constexpr node nothing;
}

value value::operator[](std::size_t index) const noexcept {
    if (index >= size()) return {message_, nothing};
    const bool only_scalars_inside = node_->extent == 1 + node_->size;
    if (only_scalars_inside) return {message_, node_[1 + index]};
    return *std::next(begin(), static_cast<std::ptrdiff_t>(index));
}

}  // namespace syncguard::redis::resp
