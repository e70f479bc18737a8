/// An SQLite file layer that fails on demand: the Nth writing call, whichever it is.
#pragma once

#include <functional>

namespace syncguard::test {

/// While one of these exists, every SQLite file of this process goes through it.
class faulty_vfs {
  public:
    faulty_vfs();
    faulty_vfs(const faulty_vfs&) = delete;
    faulty_vfs& operator=(const faulty_vfs&) = delete;
    ~faulty_vfs();

    /// From the `nth` writing call on (1 is the next), writing calls return `result_code`.
    static void fail_from(int nth, int result_code);
    /// Only the `nth` fails.
    static void fail_once(int nth, int result_code);
    /// Before the `nth` writing call, `action` is called; for killing the process there.
    static void act_before(int nth, std::function<void()> action);
    /// `action` is called before SQLite next resolves the path of a file that it opens.
    static void act_before_open(std::function<void()> action);
    static void behave();

    /// Whether the fault has struck since it was set.
    [[nodiscard]] static bool struck();
};

}  // namespace syncguard::test
