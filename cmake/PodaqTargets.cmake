# What every target of podaq shares.

# -ffp-contract=off because the numerics contract forbids fused multiply-add; a section a function, so that a linker can
# leave out what a deployed program does not use.
add_library(podaq_build_flags INTERFACE)
target_compile_options(podaq_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -ffp-contract=off -fno-math-errno -ffunction-sections -fdata-sections
  $<$<BOOL:${PODAQ_WERROR}>:-Werror>)
# g++ collects its garbage from 128 MB on, which takes a sixth of its time where it has read LibTorch's headers.
target_compile_options(podaq_build_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)

# podaq_room_sources(<out> <room>...): the rooms' sources, src/<room>/**/*.cpp.
function(podaq_room_sources out)
  set(all "")
  foreach(room ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${room}/*.cpp")
    list(APPEND all ${sources})
  endforeach()
  set(${out} ${all} PARENT_SCOPE)
endfunction()

# podaq_precompiled_headers(<target> HEADERS <header>... LIBRARIES <library>...): compiles the headers once, for all
# targets that reuse them. Their own target has no definitions of other libraries: the compiler takes a precompiled
# header only where every macro that was defined then is defined now.
function(podaq_precompiled_headers target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LIBRARIES")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} podaq_build_flags)
  target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
endfunction()

# podaq_reuse_headers(<target> <precompiled headers>): they are compiled as position-independent code like the
# libraries, and so must be who reuses them.
function(podaq_reuse_headers target headers)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# podaq_precompile(<target>): spares a target reading <torch/torch.h>, 25 s a translation unit. The header's pending
# templates still cost 10 s each: with PODAQ_UNITY the sources of one folder are compiled as one.
function(podaq_precompile target)
  podaq_reuse_headers(${target} podaq_precompiled_torch)
  if(PODAQ_UNITY)
    # A source's own types are of one file only, whatever includes it.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
      cmake_path(GET source PARENT_PATH folder)
      cmake_path(GET folder FILENAME group)
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}")
    endforeach()
  endif()
endfunction()

# podaq_test_program(<target> <label> [BY_SUITE] SOURCES <file>... LIBRARIES <library>...): a GoogleTest program, each of
# its tests known to CTest under the given label and under its kind (see tests/labels.cmake); BY_SUITE, each of its
# suites, for programs that take long to start. Tests are not worth optimizing fully, which takes the compiler half as
# long again.
function(podaq_test_program target label)
  cmake_parse_arguments(PARSE_ARGV 2 arg "BY_SUITE" "" "SOURCES;LIBRARIES")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} podaq_build_flags GTest::gtest GTest::gtest_main)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
  set(LABEL ${label})
  if(arg_BY_SUITE)
    set(SUITES_OF ${target})
    set(script "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
    configure_file("${PROJECT_SOURCE_DIR}/tests/suites.cmake.in" "${script}" @ONLY)
  else()
    gtest_discover_tests(${target}
      PROPERTIES TIMEOUT 600 ENVIRONMENT "PODAQ_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
        ENVIRONMENT_MODIFICATION PODAQ_TUNING=set:off
      DISCOVERY_TIMEOUT 120)
    set(LABELLED_TESTS ${target}_TESTS)
    set(script "${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake")
    configure_file("${PROJECT_SOURCE_DIR}/tests/label_by_name.cmake.in" "${script}" @ONLY)
  endif()
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${script}")
endfunction()

# podaq_room_tests(<room> [BY_SUITE] <library>...): one test program for tests/<room>/*.cpp, if there is any.
function(podaq_room_tests room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "BY_SUITE" "" "")
  set(by_suite "")
  if(arg_BY_SUITE)
    set(by_suite BY_SUITE)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${room}/*.cpp")
  if(sources)
    podaq_test_program(${room}_tests ${room} ${by_suite} SOURCES ${sources} LIBRARIES ${arg_UNPARSED_ARGUMENTS})
  endif()
endfunction()
