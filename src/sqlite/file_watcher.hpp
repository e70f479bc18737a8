/// Tells when a lock was released in a file, by whatever process of this host.
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

/// Who has released a lock touches the file, and whoever waits is told of that by the system. A
/// write is not what to wait for: it comes before the commit that lets others see it.
///
/// The watching begins with the first question, and takes one thread.
///
/// Thread safety: all members may be called concurrently.
class file_changes {
  public:
    explicit file_changes(std::filesystem::path file);
    file_changes(const file_changes&) = delete;
    file_changes& operator=(const file_changes&) = delete;
    ~file_changes();

    /// Tells whoever watches, in all processes.
    void announce() const noexcept;

    using count = std::uint64_t;

    /// The number of reported changes. From now on, changes are reported for the file that the path
    /// leads to now. Nothing if the system does not report changes, because of missing memory or
    /// the user's limit of watches.
    [[nodiscard]] std::optional<count> so_far();

    /// Waits for another, until then at the latest.
    void wait_for_more_than(count seen, std::chrono::steady_clock::time_point until,
                            const std::stop_token& stop);

    /// In a forked child, which must not read what is meant for its parent: closes what it
    /// inherited. Nothing else can be done with the object there.
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
