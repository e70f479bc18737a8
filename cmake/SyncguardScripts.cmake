# Lua scripts, embedded: they live in files of their own, and travel in the library.

# syncguard_join_scripts(<variable> <folder> <files>...): makes a source file from the joined text of
# the files and its SHA-1, by the template scripts.cpp.in in that folder; <variable> names it.
function(syncguard_join_scripts variable folder)
  set(SYNCGUARD_LOCK_SCRIPT "")
  foreach(file IN LISTS ARGN)
    file(READ ${folder}/${file} text)
    string(APPEND SYNCGUARD_LOCK_SCRIPT "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${file})
  endforeach()
  string(SHA1 SYNCGUARD_LOCK_SCRIPT_SHA1 "${SYNCGUARD_LOCK_SCRIPT}")
  set(joined ${CMAKE_CURRENT_BINARY_DIR}/${variable}.cpp)
  configure_file(${folder}/scripts.cpp.in ${joined} @ONLY)
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()
