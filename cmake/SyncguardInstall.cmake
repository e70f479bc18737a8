# Installation, and the package configuration for find_package(syncguard).
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/syncguard)
install(EXPORT syncguard NAMESPACE syncguard:: FILE syncguard-targets.cmake
  DESTINATION ${package_dir})
configure_package_config_file(cmake/syncguard-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/syncguard-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/syncguard-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/syncguard-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/syncguard-config-version.cmake
  cmake/FindUtf8proc.cmake
  DESTINATION ${package_dir})
