/// `pending_release`: makes the end of the program wait for asynchronous releases and warnings.
#pragma once

namespace syncguard {

/// An unfinished asynchronous release or warning. While one exists, the normal end of the program
/// (`exit`, or a return from `main`) waits, for at most a second. Often no caller waits for the
/// release of a destroyed lease; without this the lock would stay until its TTL ends.
class pending_release {
  public:
    /// Throws `std::bad_alloc`.
    pending_release();
    pending_release(const pending_release&) = delete;
    pending_release& operator=(const pending_release&) = delete;
    ~pending_release();

  private:
    class registry;
    registry& registry_;
};

}  // namespace syncguard
