# Finds SystemC (with TLM-2.0) and defines kb_systemc, an interface target that carries it. Also part of the installed
# package, where consumers find theirs with it.
#
# Looked for, in this order: the CMake package SystemCLanguage, pkg-config's systemc, and the folder that the
# variable or environment variable SYSTEMC_HOME names.

add_library(kb_systemc INTERFACE)
set(_kb_systemc_origin "")

find_package(SystemCLanguage CONFIG QUIET)
if(TARGET SystemC::systemc)
  target_link_libraries(kb_systemc INTERFACE SystemC::systemc)
  set(_kb_systemc_origin "CMake package in ${SystemCLanguage_DIR}")
endif()

if(NOT _kb_systemc_origin)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(KB_SYSTEMC QUIET IMPORTED_TARGET GLOBAL systemc)
    if(KB_SYSTEMC_FOUND)
      target_link_libraries(kb_systemc INTERFACE PkgConfig::KB_SYSTEMC)
      set(_kb_systemc_origin "pkg-config, version ${KB_SYSTEMC_VERSION}")
    endif()
  endif()
endif()

if(NOT _kb_systemc_origin)
  set(_kb_home "${SYSTEMC_HOME}")
  if(NOT _kb_home)
    set(_kb_home "$ENV{SYSTEMC_HOME}")
  endif()
  if(_kb_home)
    find_path(KB_SYSTEMC_INCLUDE_DIR systemc PATHS "${_kb_home}" PATH_SUFFIXES include NO_DEFAULT_PATH)
    find_library(KB_SYSTEMC_LIBRARY systemc PATHS "${_kb_home}" PATH_SUFFIXES lib lib64 lib-linux64 lib-linux
                                                                              lib-macosx64 NO_DEFAULT_PATH)
    mark_as_advanced(KB_SYSTEMC_INCLUDE_DIR KB_SYSTEMC_LIBRARY)
    if(KB_SYSTEMC_INCLUDE_DIR AND KB_SYSTEMC_LIBRARY)
      find_package(Threads REQUIRED)
      target_include_directories(kb_systemc SYSTEM INTERFACE "${KB_SYSTEMC_INCLUDE_DIR}")
      target_link_libraries(kb_systemc INTERFACE "${KB_SYSTEMC_LIBRARY}" Threads::Threads)
      set(_kb_systemc_origin "SYSTEMC_HOME=${_kb_home}")
    else()
      message(FATAL_ERROR "SYSTEMC_HOME=${_kb_home} holds no include/systemc or no libsystemc under lib*/.")
    endif()
  endif()
endif()

if(NOT _kb_systemc_origin)
  message(FATAL_ERROR
    "SystemC was not found. Either install it (Debian: apt-get install libsystemc-dev; scripts/install-deps.sh "
    "installs everything), put the folder of SystemCLanguageConfig.cmake into CMAKE_PREFIX_PATH, or set "
    "SYSTEMC_HOME to the folder that it was installed to.")
endif()

# SystemC puts the C++ standard that it was built with into the name of a symbol that every program refers to.
# With another standard nothing is wrong until the very last link, and the message there is cryptic.
if(NOT KB_SYSTEMC_LINKS STREQUAL _kb_systemc_origin)
  file(WRITE "${CMAKE_BINARY_DIR}/CMakeFiles/kb_systemc_check.cpp"
       "#include <systemc>\n#include <tlm>\nint sc_main(int, char*[]) { return 0; }\n")
  get_target_property(_kb_links kb_systemc INTERFACE_LINK_LIBRARIES)
  get_target_property(_kb_includes kb_systemc INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT _kb_includes)
    set(_kb_includes "")
  endif()
  try_compile(_kb_ok "${CMAKE_BINARY_DIR}/CMakeFiles/kb_systemc_check"
              SOURCES "${CMAKE_BINARY_DIR}/CMakeFiles/kb_systemc_check.cpp"
              CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${_kb_includes}"
              LINK_LIBRARIES ${_kb_links}
              OUTPUT_VARIABLE _kb_output
              CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  if(NOT _kb_ok)
    if(_kb_output MATCHES "sc_api_version|cplusplus")
      message(FATAL_ERROR
        "SystemC (${_kb_systemc_origin}) was built with another C++ standard: its library does not hold the "
        "API version symbol that a C++17 program refers to, so nothing can link with it. Use a SystemC that was "
        "built with -DCMAKE_CXX_STANDARD=17 (Debian's libsystemc-dev is).\nOutput of the check:\n${_kb_output}")
    endif()
    message(FATAL_ERROR "A C++17 program with SystemC (${_kb_systemc_origin}) does not compile or link. "
                        "Output of the check:\n${_kb_output}")
  endif()
  set(KB_SYSTEMC_LINKS "${_kb_systemc_origin}" CACHE INTERNAL "The SystemC that passed the link check")
endif()
message(STATUS "SystemC: ${_kb_systemc_origin}")
