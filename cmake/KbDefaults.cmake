# Settings that every target of this project shares, collected in the interface target kb_options.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# Assertions guard the model's invariants and stay on in optimised builds. Only CMake's own default is
# replaced, so that flags given by the user survive.
if(CMAKE_CXX_FLAGS_RELWITHDEBINFO STREQUAL "-O2 -g -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g" CACHE STRING "Flags of RelWithDebInfo builds" FORCE)
endif()

# The standard is a property of the SystemC library too (its version check is an exported symbol), so it is
# fixed here instead of being a lower bound.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(KB_CCACHE ccache)
  mark_as_advanced(KB_CCACHE)
  if(KB_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${KB_CCACHE}")
  endif()
endif()

add_library(kb_options INTERFACE)
# No contraction to FMA: results must be the same bytes at every optimisation level and with every compiler.
target_compile_options(kb_options INTERFACE -ffp-contract=off)

add_library(kb_warnings INTERFACE)
# A box that speaks several protocols overloads nb_transport_fw, one overload from each; clang calls that hiding.
target_compile_options(kb_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  $<$<CXX_COMPILER_ID:Clang>:-Wno-overloaded-virtual> $<$<BOOL:${KB_WERROR}>:-Werror>)
