# Finds CLI11, whose Debian package has no CMake configuration. Target: CLI11::CLI11.
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp)
mark_as_advanced(CLI11_INCLUDE_DIR)

if(CLI11_INCLUDE_DIR AND EXISTS ${CLI11_INCLUDE_DIR}/CLI/Version.hpp)
  file(STRINGS ${CLI11_INCLUDE_DIR}/CLI/Version.hpp version_line
    REGEX "^#define CLI11_VERSION \"[^\"]+\"")
  string(REGEX REPLACE ".*\"([^\"]+)\".*" "\\1" CLI11_VERSION "${version_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CLI11
  REQUIRED_VARS CLI11_INCLUDE_DIR VERSION_VAR CLI11_VERSION)

if(CLI11_FOUND AND NOT TARGET CLI11::CLI11)
  add_library(CLI11::CLI11 INTERFACE IMPORTED)
  set_target_properties(CLI11::CLI11 PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${CLI11_INCLUDE_DIR})
endif()
