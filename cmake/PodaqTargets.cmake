# Helpers that every room's targets share.

# Warnings are errors; -ffp-contract=off because the numerics contract forbids fused multiply-add.
add_library(podaq_build_flags INTERFACE)
target_compile_options(podaq_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror -ffp-contract=off -fno-math-errno)

# Collects the sources of rooms: src/<room>/**/*.cpp.
function(podaq_room_sources out)
  set(all "")
  foreach(room ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${room}/*.cpp")
    list(APPEND all ${sources})
  endforeach()
  set(${out} ${all} PARENT_SCOPE)
endfunction()

# One test program per room: tests/<room>/*_test.cpp, linked with the given libraries.
function(podaq_room_tests room)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${room}/*.cpp")
  if(NOT sources)
    return()
  endif()
  set(target ${room}_tests)
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE ${ARGN} podaq_build_flags GTest::gtest GTest::gtest_main)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
  gtest_discover_tests(${target} PROPERTIES LABELS "unit;${room}" TIMEOUT 600 DISCOVERY_TIMEOUT 120)
endfunction()
