# Embeds Lua scripts, which are separate source files, into the library.

# syncguard_read_constant(<variable> <header> <name>): sets <variable> to the number that a header
# assigns to a constant.
function(syncguard_read_constant variable header name)
  file(READ ${header} text)
  if(NOT text MATCHES "[^A-Za-z0-9_]${name}( = |{)([0-9']+)")
    message(FATAL_ERROR "${header} gives no number to ${name}")
  endif()
  string(REPLACE "'" "" value ${CMAKE_MATCH_2})
  set(${variable} ${value} PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
endfunction()

# syncguard_join_scripts(<variable> <folder> <files>...): makes a source file from the joined text of
# the files and its SHA-1, by the template scripts.cpp.in in that folder; <variable> names it. In
# files that end in ".in", @NAME@ stands for the value of a variable.
function(syncguard_join_scripts variable folder)
  set(SYNCGUARD_LOCK_SCRIPT "")
  foreach(file IN LISTS ARGN)
    file(READ ${folder}/${file} text)
    if(file MATCHES "[.]in$")
      string(CONFIGURE "${text}" text @ONLY)
    endif()
    string(APPEND SYNCGUARD_LOCK_SCRIPT "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${file})
  endforeach()
  string(SHA1 SYNCGUARD_LOCK_SCRIPT_SHA1 "${SYNCGUARD_LOCK_SCRIPT}")
  set(joined ${CMAKE_CURRENT_BINARY_DIR}/${variable}.cpp)
  configure_file(${folder}/scripts.cpp.in ${joined} @ONLY)
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()
