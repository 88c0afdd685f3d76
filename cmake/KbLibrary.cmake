# kb_add_library(NAME [LINKS target...] [PRIVATE_LINKS target...] [HEADER_ONLY_LINKS target...] [PUBLIC_HEADERS file...])
#
# The library of one folder: sources src/**.cpp, headers under the folder's own include root, which nobody sees
# who does not link it. That is what enforces the direction of includes between folders. Defines kb_<NAME> and
# kernbench::<NAME>. A folder that has only headers is an interface library.
#
# PUBLIC_HEADERS, relative to the include root, are those that are installed. HEADER_ONLY_LINKS are needed to build the
# sources and leave nothing for a user of the library to link.
function(kb_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINKS;PRIVATE_LINKS;HEADER_ONLY_LINKS;PUBLIC_HEADERS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp")
  set(target kb_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
    list(TRANSFORM arg_HEADER_ONLY_LINKS REPLACE "(.+)" "$<BUILD_INTERFACE:\\1>")
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:kb_warnings> ${arg_PRIVATE_LINKS} ${arg_HEADER_ONLY_LINKS})
    if(KB_UNITY)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
      target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    endif()
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>")
  target_compile_features(${target} ${scope} cxx_std_17)
  target_link_libraries(${target} ${scope} $<BUILD_INTERFACE:kb_options> ${arg_LINKS})
  add_library(kernbench::${name} ALIAS ${target})

  list(TRANSFORM arg_PUBLIC_HEADERS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/include/")
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS "${CMAKE_CURRENT_SOURCE_DIR}/include"
                 FILES ${arg_PUBLIC_HEADERS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT kernbench FILE_SET HEADERS)
endfunction()
