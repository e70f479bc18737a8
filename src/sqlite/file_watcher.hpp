/// Reports releases of locks in a file by any process of this host (inotify).
#pragma once

#include "util/owned_thread.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

namespace syncguard::sqlite {

/// After a release the engine changes the file times (IN_ATTRIB), and the system notifies the
/// watchers. Watchers do not wait for writes to the file, which come before the commit that makes
/// the release visible.
///
/// Watching begins with the first call of `version`, and needs one thread.
///
/// Thread safety: all members may be called concurrently.
class file_watcher {
  public:
    explicit file_watcher(std::filesystem::path file);
    file_watcher(const file_watcher&) = delete;
    file_watcher& operator=(const file_watcher&) = delete;
    ~file_watcher();

    /// Notifies the watchers in all processes.
    void notify_watchers() const noexcept;

    using version_number = std::uint64_t;

    /// The number of reported changes. From now on, changes are reported for the file that the path
    /// leads to now. Nullopt if the system cannot report changes, because of missing memory or the
    /// user's limit of watches.
    [[nodiscard]] std::optional<version_number> version();

    /// Waits for a later version, at most until `until`.
    void wait_for_change(version_number seen, std::chrono::steady_clock::time_point until,
                         const std::stop_token& stop);

    /// For a forked child, which must not read the parent's events: closes the inherited
    /// descriptors. Afterwards the object cannot be used, not even destroyed.
    void abandon() noexcept;

  private:
    struct shared_state;
    static void run(const std::shared_ptr<shared_state>& state);
    // With the mutex locked.
    [[nodiscard]] bool start();
    [[nodiscard]] bool watch_folder();

    const std::filesystem::path file_;
    std::mutex starting_;
    std::shared_ptr<shared_state> state_;
    int watched_folder_ = -1;  ///< A watch descriptor of inotify.
    std::filesystem::path watched_file_;
    owned_thread thread_;
};

}  // namespace syncguard::sqlite
