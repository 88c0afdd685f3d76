# kb_add_library(NAME [LINKS target...] [PRIVATE_LINKS target...])
#
# The library of one folder: sources src/**.cpp, headers under the folder's own include root, which nobody sees
# who does not link it. That is what enforces the direction of includes between folders. Defines kb_<NAME> and
# kernbench::<NAME>. A folder that has only headers is an interface library.
function(kb_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINKS;PRIVATE_LINKS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp")
  set(target kb_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:kb_warnings> ${arg_PRIVATE_LINKS})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "${CMAKE_CURRENT_SOURCE_DIR}/include")
  target_compile_features(${target} ${scope} cxx_std_17)
  target_link_libraries(${target} ${scope} kb_options ${arg_LINKS})
  add_library(kernbench::${name} ALIAS ${target})
endfunction()
