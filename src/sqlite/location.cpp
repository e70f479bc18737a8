#include <syncguard/error.hpp>
#include <syncguard/sqlite.hpp>

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace syncguard::sqlite {

namespace {

std::filesystem::path home_folder() {
    if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') return home;
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
        found != nullptr && found->pw_dir != nullptr && *found->pw_dir == '/') {
        return found->pw_dir;
    }
    throw lock_error(error_code::invalid_argument,
                     "there is no home folder for the default lock file: set XDG_STATE_HOME or "
                     "HOME, or name a file (sqlite:/path/to/locks.db)");
}

}  // namespace

std::filesystem::path default_path() {
    const char* configured = std::getenv("XDG_STATE_HOME");
    // The XDG Base Directory Specification requires that relative paths are ignored.
    const std::filesystem::path state = configured != nullptr && *configured == '/'
                                            ? std::filesystem::path(configured)
                                            : home_folder() / ".local" / "state";
    return state / "syncguard" / "locks.db";
}

}  // namespace syncguard::sqlite
