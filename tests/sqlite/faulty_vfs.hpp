/// An SQLite VFS that fails on demand at the Nth writing call.
#pragma once

#include <functional>

namespace syncguard::test {

/// While an object of this class exists, all SQLite files of this process use it.
class faulty_vfs {
  public:
    faulty_vfs();
    faulty_vfs(const faulty_vfs&) = delete;
    faulty_vfs& operator=(const faulty_vfs&) = delete;
    ~faulty_vfs();

    /// From the `nth` writing call on (1 is the next), writing calls return `result_code`.
    static void fail_from(int nth, int result_code);
    /// Only the `nth` writing call fails.
    static void fail_once(int nth, int result_code);
    /// Calls `action` before the `nth` writing call, for example to kill the process there.
    static void act_before(int nth, std::function<void()> action);
    /// Calls `action` before SQLite next resolves the path of a file that it opens.
    static void act_before_open(std::function<void()> action);
    static void behave();

    /// Whether the fault has occurred since it was set.
    [[nodiscard]] static bool struck();
};

}  // namespace syncguard::test
