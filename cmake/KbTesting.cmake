# kb_add_test(NAME SOURCES file... [LIBS target...] [TIMEOUT seconds])
#
# A Boost.Test program with its own sc_main. Each of its cases becomes a CTest entry of its own, in a process of
# its own, so that no case sees the simulation kernel's state of another. The list of cases is asked of
# the program after each build, since only it knows generated cases (data and template cases).
function(kb_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LIBS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set(target test_${name})
  add_executable(${target} ${arg_SOURCES} "${PROJECT_SOURCE_DIR}/tests/support/sc_main_boost.cpp"
                 "${PROJECT_SOURCE_DIR}/sc_main/sanitizer.cpp")
  target_compile_definitions(${target} PRIVATE BOOST_TEST_DYN_LINK BOOST_TEST_NO_MAIN
                                               BOOST_TEST_ALTERNATIVE_INIT_API
                                               KB_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                               KB_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support")
  # The checks are the bulk of a test's code and run once: optimising them costs more than it gains.
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  target_link_libraries(${target} PRIVATE ${arg_LIBS} kb_warnings Boost::unit_test_framework)

  set(cases "${CMAKE_CURRENT_BINARY_DIR}/${target}_cases.cmake")
  set(entry "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake")
  add_custom_command(TARGET ${target} POST_BUILD
    BYPRODUCTS "${cases}"
    COMMAND "${CMAKE_COMMAND}" -D "PROGRAM=$<TARGET_FILE:${target}>" -D "NAME=${name}" -D "OUTPUT=${cases}"
            -D "TIMEOUT=${arg_TIMEOUT}" -D "WORKING_DIRECTORY=${CMAKE_CURRENT_BINARY_DIR}"
            -P "${PROJECT_SOURCE_DIR}/cmake/KbDiscoverCases.cmake"
    VERBATIM)
  file(WRITE "${entry}" "if(EXISTS \"${cases}\")\n  include(\"${cases}\")\n"
                        "else()\n  add_test(${name}.NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${entry}")
endfunction()
