/// Makes one allocation of the calling thread fail. It replaces operator new of the whole program.
#pragma once

#include <new>

namespace syncguard::test {

/// How many allocations of this thread succeed before one fails; negative: all.
extern thread_local long allocations_left;

/// Fails the `nth` allocation (from 0) inside `body`, which must deal with it or let it pass as
/// std::bad_alloc; false if there were not that many.
template <class Body>
bool with_failing_allocation(long nth, Body body) {
    allocations_left = nth;
    try {
        body();
    } catch (const std::bad_alloc&) {
        // Told by the counter.
    } catch (...) {
        allocations_left = -1;
        throw;
    }
    const bool struck = allocations_left < 0;
    allocations_left = -1;
    return struck;
}

}  // namespace syncguard::test
