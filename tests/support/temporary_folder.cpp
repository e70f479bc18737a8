#include "support/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace syncguard::test {

temporary_folder::temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "syncguard-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
        throw std::system_error(errno, std::generic_category(), "mkdtemp");
    }
    path_ = pattern;
}

temporary_folder::~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace syncguard::test
