# Two programs of a consumer: one writes the sample network's file, one loads and runs it.
enable_testing()
foreach(program write_sample run_sample)
  add_executable(${program} "${CMAKE_CURRENT_LIST_DIR}/${program}.cpp")
  target_link_libraries(${program} PRIVATE podaq::runtime)
  add_test(NAME ${program} COMMAND ${program} sample.podaq)
endforeach()
set_tests_properties(write_sample PROPERTIES FIXTURES_SETUP sample)
set_tests_properties(run_sample PROPERTIES FIXTURES_REQUIRED sample)
