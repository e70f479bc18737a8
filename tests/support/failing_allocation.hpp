/// Makes allocations of the calling thread fail. Replaces operator new of the whole program.
#pragma once

#include <new>

namespace syncguard::test {

/// How many allocations of this thread succeed first, and how many fail after them.
struct allocation_plan {
    long succeed = 0;
    long fail = 0;
};
extern thread_local allocation_plan allocations;

/// Fails `in_a_row` consecutive allocations inside `body`, beginning with the `nth` (from 0).
/// `body` must handle the failure or let std::bad_alloc pass. Returns false if `body` made fewer
/// allocations.
template <class Body>
bool with_failing_allocation(long nth, Body body, long in_a_row = 1) {
    allocations = {.succeed = nth, .fail = in_a_row};
    try {
        body();
    } catch (const std::bad_alloc&) {
        // The counter shows whether an allocation has failed.
    } catch (...) {
        allocations = {};
        throw;
    }
    const bool struck = allocations.fail < in_a_row;
    allocations = {};
    return struck;
}

}  // namespace syncguard::test
