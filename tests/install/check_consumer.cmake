# Installs BUILD into WORK/prefix and builds and runs the installed examples against it.
cmake_policy(VERSION 3.25)

function(step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
set(prefix "${WORK}/prefix")
step("cmake --install" "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}")

# What a library must not bring along.
file(GLOB libraries "${prefix}/${LIBDIR}/libkb_*.a")
list(LENGTH libraries count)
if(count LESS 6)
  message(FATAL_ERROR "found ${count} installed libraries; expected 6: ${libraries}")
endif()
foreach(library IN LISTS libraries)
  step("nm" "${NM}" --defined-only "${library}")
  if(output MATCHES " T (main|sc_main)\n")
    message(FATAL_ERROR "${library} defines ${CMAKE_MATCH_1}")
  endif()
endforeach()

# Every installed header stands on installed headers alone.
file(GLOB_RECURSE headers RELATIVE "${prefix}/include" "${prefix}/include/kb/*.h")
list(SORT headers)
list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>\n")
list(JOIN headers "" includes)
file(WRITE "${WORK}/headers/all.cpp" "${includes}")
file(WRITE "${WORK}/headers/CMakeLists.txt" "
cmake_minimum_required(VERSION 3.25)
project(headers LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(kernbench 0.1 REQUIRED)
find_package(kernbench 0.1 REQUIRED)  # twice, as in a project of several parts
add_library(all_headers OBJECT all.cpp)
target_link_libraries(all_headers PRIVATE kernbench::cli)
")

foreach(project headers examples)
  set(source "${WORK}/headers")
  if(project STREQUAL "examples")
    set(source "${prefix}/share/kernbench/examples")
  endif()
  step("configuring ${project}" "${CMAKE_COMMAND}" -S "${source}" -B "${WORK}/build-${project}" -G "${GENERATOR}"
       "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
       -DCMAKE_BUILD_TYPE=Debug -DFETCHCONTENT_FULLY_DISCONNECTED=ON)
  step("building ${project}" "${CMAKE_COMMAND}" --build "${WORK}/build-${project}" -j 1)
endforeach()
step("running the examples" "${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}/build-examples" --output-on-failure
     --no-tests=error)
message("${output}")
step("running the installed program" "${prefix}/bin/kernbench" list)
