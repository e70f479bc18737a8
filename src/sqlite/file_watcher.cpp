#include "sqlite/file_watcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace syncguard::sqlite {

namespace {

class file_handle {
  public:
    explicit file_handle(int fd) noexcept : fd_(fd) {}
    file_handle(const file_handle&) = delete;
    file_handle& operator=(const file_handle&) = delete;
    ~file_handle() { close(); }

    [[nodiscard]] int get() const noexcept { return fd_; }
    void close() noexcept {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }

  private:
    int fd_;
};

bool concerns(std::string_view events, std::string_view file) {
    while (events.size() >= sizeof(inotify_event)) {
        inotify_event event{};
        std::memcpy(&event, events.data(), sizeof event);
        if ((event.mask & IN_Q_OVERFLOW) != 0) return true;
        if (event.len > 0 && file == events.data() + sizeof event) return true;
        events.remove_prefix(sizeof event + event.len);
    }
    return false;
}

}  // namespace

struct file_watcher::shared_state {
    file_handle events{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    file_handle end{::eventfd(0, EFD_CLOEXEC)};
    std::mutex mutex;
    std::condition_variable_any changed;
    std::string file_name;
    version_number version = 0;
};

file_watcher::file_watcher(std::filesystem::path file) : file_(std::move(file)) {}

file_watcher::~file_watcher() {
    if (state_) (void)::eventfd_write(state_->end.get(), 1);
    thread_.end();
}

void file_watcher::abandon() noexcept {
    if (!state_) return;
    state_->events.close();
    state_->end.close();
}

void file_watcher::notify_watchers() const noexcept {
    // If it fails, waiters try again after their pause.
    (void)::utimensat(AT_FDCWD, file_.c_str(), nullptr, 0);
}

std::optional<file_watcher::version_number> file_watcher::version() {
    const std::lock_guard guard(starting_);
    try {
        if ((!state_ && !start()) || !watch_folder()) return std::nullopt;
    } catch (const std::exception&) {
        return std::nullopt;
    }
    const std::lock_guard counting(state_->mutex);
    return state_->version;
}

void file_watcher::wait_for_change(version_number seen, std::chrono::steady_clock::time_point until,
                                   const std::stop_token& stop) {
    std::unique_lock guard(state_->mutex);
    state_->changed.wait_until(guard, stop, until, [&] { return state_->version > seen; });
}

bool file_watcher::start() {
    auto state = std::make_shared<shared_state>();
    if (state->events.get() < 0 || state->end.get() < 0) return false;
    thread_.ensure_started("syncguard-watch", [state] { run(state); });
    state_ = std::move(state);
    return true;
}

/// Watches the folder, because the file may be replaced. If the path leads to another folder than
/// at the last call, watches that folder instead.
bool file_watcher::watch_folder() {
    // inotify reports changes for the target of a symbolic link, not for the link.
    const auto real_file = std::filesystem::weakly_canonical(file_);
    const int folder = ::inotify_add_watch(state_->events.get(), real_file.parent_path().c_str(),
                                           IN_ATTRIB | IN_CREATE | IN_MOVED_TO | IN_DELETE);
    if (folder < 0) return false;
    if (folder == watched_folder_ && real_file == watched_file_) return true;
    if (folder != watched_folder_ && watched_folder_ >= 0) {
        (void)::inotify_rm_watch(state_->events.get(), watched_folder_);
    }
    watched_folder_ = folder;
    watched_file_ = real_file;
    const std::lock_guard guard(state_->mutex);
    state_->file_name = real_file.filename().string();
    return true;
}

void file_watcher::run(const std::shared_ptr<shared_state>& state) {
    std::array<pollfd, 2> sources{pollfd{.fd = state->events.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = state->end.get(), .events = POLLIN, .revents = 0}};
    alignas(inotify_event) std::array<char, 16'384> buffer{};
    while (true) {
        ::poll(sources.data(), sources.size(), -1);
        if (sources[1].revents != 0) return;
        const auto length = ::read(state->events.get(), buffer.data(), buffer.size());
        if (length <= 0) continue;
        {
            const std::lock_guard guard(state->mutex);
            if (!concerns({buffer.data(), static_cast<std::size_t>(length)}, state->file_name)) {
                continue;
            }
            ++state->version;
        }
        state->changed.notify_all();
    }
}

}  // namespace syncguard::sqlite
