# Compiles a source that includes HEADER with the include directories INCLUDES; succeeds if the outcome is EXPECT.
cmake_policy(VERSION 3.25)

file(WRITE "${SOURCE}" "#include <${HEADER}>\n")
set(flags "")
foreach(dir IN LISTS INCLUDES)
  list(APPEND flags "-I${dir}")
endforeach()
execute_process(COMMAND "${COMPILER}" ${STANDARD_FLAG} -fsyntax-only ${flags} "${SOURCE}"
                RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(EXPECT STREQUAL "accepted")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "<${HEADER}> must be reachable but does not compile:\n${out}${err}")
  endif()
elseif(status EQUAL 0)
  message(FATAL_ERROR "<${HEADER}> must not be reachable, yet it compiles")
elseif(NOT err MATCHES "fatal error:[^\n]*${HEADER}")
  # It has to fail because the header is not found, not for any other reason.
  message(FATAL_ERROR "<${HEADER}> failed for another reason than being out of reach:\n${out}${err}")
endif()
