# Functions that make this project's targets, with language level, warnings and sanitizers.

# Flags for our own code only: nothing here reaches a consumer.
add_library(syncguard_flags INTERFACE)
target_compile_options(syncguard_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual
  # Designated initialisers leave members at their defaults on purpose.
  -Wno-missing-field-initializers
  $<$<BOOL:${SYNCGUARD_WERROR}>:-Werror>)
if(SYNCGUARD_SANITIZE)
  # The whole build is instrumented, because a mixed build leads to false reports.
  add_compile_options(-fsanitize=${SYNCGUARD_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SYNCGUARD_SANITIZE})
  # In instrumented code these warnings are false.
  target_compile_options(syncguard_flags INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
  if(SYNCGUARD_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(SYNCGUARD_SANITIZE MATCHES "thread")
    # ThreadSanitizer does not support fences; Asio's queues are synchronised by their mutexes as
    # well.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

# syncguard_add_library(<name> SOURCES ... HEADERS ...): a library syncguard::<name>.
function(syncguard_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS")
  set(target syncguard_${name})
  add_library(${target})
  add_library(syncguard::${name} ALIAS ${target})
  target_sources(${target}
    PRIVATE ${arg_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:syncguard_flags>)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    EXPORT_NAME ${name}
    POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
  install(TARGETS ${target} EXPORT syncguard FILE_SET HEADERS)
endfunction()

# syncguard_add_program(<name> <sources>...): an executable with our flags.
function(syncguard_add_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE syncguard_flags)
  target_compile_features(${name} PRIVATE cxx_std_20)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()
