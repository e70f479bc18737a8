/// A libpq service file for one test.
#pragma once

#include "support/temporary_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

namespace syncguard::test {

/// Creates the file and sets PGSERVICEFILE to its path, until destruction.
class service_file {
  public:
    explicit service_file(const std::string& text) {
        const auto path = folder_ / "services";
        std::ofstream(path) << text;
        if (::setenv("PGSERVICEFILE", path.c_str(), 1) != 0) throw std::runtime_error("setenv");
    }
    service_file(const service_file&) = delete;
    service_file& operator=(const service_file&) = delete;
    ~service_file() {
        ::unsetenv("PGSERVICEFILE");
        ::unsetenv("PGSERVICE");
    }

  private:
    const temporary_folder folder_;
};

}  // namespace syncguard::test
