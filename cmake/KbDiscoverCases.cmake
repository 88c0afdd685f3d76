# Asks a Boost.Test program for its cases and writes one add_test per case.
# In: PROGRAM, NAME, OUTPUT, TIMEOUT, WORKING_DIRECTORY.
#
# --list_content prints a tree, four blanks per level, each entry with an optional '*' (enabled) and an optional
# ': description'. A suite is an entry that is followed by a deeper one.

cmake_policy(VERSION 3.25)

set(ENV{SYSTEMC_DISABLE_COPYRIGHT_MESSAGE} 1)
execute_process(COMMAND "${PROGRAM}" --list_content WORKING_DIRECTORY "${WORKING_DIRECTORY}"
                RESULT_VARIABLE status OUTPUT_VARIABLE listing ERROR_VARIABLE listing_err)
if(NOT status EQUAL 0)
  file(REMOVE "${OUTPUT}")
  message(FATAL_ERROR "${PROGRAM} --list_content ended with ${status}:\n${listing}${listing_err}")
endif()

string(APPEND listing "${listing_err}")
string(REPLACE ";" "\\;" listing "${listing}")
string(REGEX REPLACE "\r?\n" ";" lines "${listing}")

set(script "")
set(path "")      # the suites that the current line lies in
set(pending "")   # the line before, not yet known to be a suite or a case
set(pending_level -1)
set(count 0)

macro(flush_case)
  if(pending)
    list(JOIN path "/" prefix)
    set(full "${pending}")
    if(prefix)
      set(full "${prefix}/${pending}")
    endif()
    string(APPEND script
           "add_test([==[${NAME}.${full}]==] [==[${PROGRAM}]==] [==[--run_test=${full}]==] [==[--color_output=no]==])\n"
           "set_tests_properties([==[${NAME}.${full}]==] PROPERTIES TIMEOUT ${TIMEOUT} LABELS [==[${NAME}]==]"
           " WORKING_DIRECTORY [==[${WORKING_DIRECTORY}]==]"
           " ENVIRONMENT SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1)\n")
    math(EXPR count "${count} + 1")
  endif()
endmacro()

foreach(line IN LISTS lines)
  if(NOT line MATCHES "^( *)([^ *:][^*:]*)")
    continue()
  endif()
  string(LENGTH "${CMAKE_MATCH_1}" indent)
  set(entry "${CMAKE_MATCH_2}")
  math(EXPR level "${indent} / 4")
  if(level GREATER pending_level AND pending)
    list(APPEND path "${pending}")
  else()
    flush_case()
    while(TRUE)
      list(LENGTH path depth)
      if(depth LESS_EQUAL level)
        break()
      endif()
      list(POP_BACK path)
    endwhile()
  endif()
  set(pending "${entry}")
  set(pending_level ${level})
endforeach()
flush_case()

if(count EQUAL 0)
  file(REMOVE "${OUTPUT}")
  message(FATAL_ERROR "${PROGRAM} lists no test case:\n${listing}")
endif()
file(WRITE "${OUTPUT}" "${script}")
