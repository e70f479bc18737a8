/// A private folder for one test.
#pragma once

#include <filesystem>

namespace syncguard::test {

/// Made on construction, removed with all its contents on destruction.
class temporary_folder {
  public:
    temporary_folder();
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder();

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

}  // namespace syncguard::test
