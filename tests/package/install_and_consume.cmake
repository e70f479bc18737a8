# Run by ctest: install, configure the consumer against the installation, build it, run it.
function(must)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed (${code}): ${ARGV}\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
must(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
must(${CMAKE_COMMAND} -S ${CONSUMER_DIR} -B ${WORK_DIR}/build -G Ninja
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
must(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
must(${WORK_DIR}/build/consumer)
if(NOT output MATCHES "fence 000000000000001")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
must(${WORK_DIR}/prefix/bin/syncguard --version)
