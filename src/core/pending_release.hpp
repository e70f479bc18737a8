/// Asynchronous releases that the end of the program waits for.
#pragma once

namespace syncguard {

/// An asynchronous release under way. While one exists, the normal end of the program (`exit`, or a
/// return from `main`) waits, for a second at most: often nobody else waits for the release of a
/// lease that was destroyed, and the lock would stay until its TTL ends.
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
