# What some tests need beside the compiler. Where it is missing, or does not work on this machine, those tests are
# absent, and the configuration says so.
#
#   KB_HAVE_BROWSER   Node.js and a Chromium that opens a page
#   KB_HAVE_SLURM     Slurm's daemons, and a node of it that comes up

# kb_test_tool(VARIABLE WHAT MISSING COMMAND...): whether a command succeeds; asked once.
function(kb_test_tool variable what hint)
  if(NOT DEFINED ${variable})
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET TIMEOUT 60)
    if(result EQUAL 0)
      set(${variable} ON CACHE BOOL "${what} works on this machine; tests that need it are built")
    else()
      set(${variable} OFF CACHE BOOL "${what} works on this machine; tests that need it are built")
    endif()
  endif()
  if(NOT ${variable})
    message(STATUS "Tests that need ${what} are absent (${hint}; asked again with -U ${variable})")
  endif()
endfunction()

kb_test_tool(KB_HAVE_BROWSER "a browser" "Debian: nodejs chromium"
  node "${PROJECT_SOURCE_DIR}/tests/report/browser_works.mjs")
kb_test_tool(KB_HAVE_SLURM "Slurm" "Debian: slurmctld slurmd slurm-client munge, and root"
  "${PROJECT_SOURCE_DIR}/tests/cli/with_slurm.sh" true)
