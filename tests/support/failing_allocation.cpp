#include "support/failing_allocation.hpp"

#include <cstddef>
#include <cstdlib>

namespace syncguard::test {

thread_local allocation_plan allocations;

namespace {

void* allocate(std::size_t size) {
    if (allocations.fail > 0 && allocations.succeed-- <= 0) {
        --allocations.fail;
        throw std::bad_alloc();
    }
    if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
    throw std::bad_alloc();
}

}  // namespace
}  // namespace syncguard::test

// Not inlined: otherwise the compiler sees memory of `new` passed to `free`, and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
    return syncguard::test::allocate(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
