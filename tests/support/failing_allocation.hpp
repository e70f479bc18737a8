/// Makes allocations of the calling thread fail. It replaces operator new of the whole program.
#pragma once

#include <new>

namespace syncguard::test {

/// How many allocations of this thread succeed before some fail, and how many then do.
struct allocation_plan {
    long succeed = 0;
    long fail = 0;
};
extern thread_local allocation_plan allocations;

/// Fails the `nth` allocation (from 0) inside `body`, and those after it, `in_a_row` all together.
/// The body must deal with it or let it pass as std::bad_alloc; false if there were not that many.
template <class Body>
bool with_failing_allocation(long nth, Body body, long in_a_row = 1) {
    allocations = {.succeed = nth, .fail = in_a_row};
    try {
        body();
    } catch (const std::bad_alloc&) {
        // Told by the counter.
    } catch (...) {
        allocations = {};
        throw;
    }
    const bool struck = allocations.fail < in_a_row;
    allocations = {};
    return struck;
}

}  // namespace syncguard::test
