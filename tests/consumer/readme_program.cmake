# readme_program(<target> <number> <preamble.h>): README.md's first, second, … block of C++ code as a program. The
# preamble declares what the README leaves to its reader: a module, data, a frame.
function(readme_program target number preamble)
  file(READ "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../README.md" code)
  foreach(block RANGE 1 ${number})
    string(FIND "${code}" "\n```cpp\n" start)
    if(start EQUAL -1)
      message(FATAL_ERROR "README.md has no block ${number} of C++ code")
    endif()
    math(EXPR start "${start} + 8")
    string(SUBSTRING "${code}" ${start} -1 code)
  endforeach()
  string(FIND "${code}" "\n```" length)
  string(SUBSTRING "${code}" 0 ${length} code)

  string(REGEX MATCHALL "#include[ ]*[<\"][^>\"]*[>\"]" includes "${code}")
  list(JOIN includes "\n" includes)
  string(REGEX REPLACE "#include[^\n]*\n" "" code "${code}")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp")
  file(CONFIGURE OUTPUT "${source}" @ONLY
    CONTENT "@includes@\n#include \"@preamble@\"\n\nint main() {\n@code@\n}\n")
  add_executable(${target} "${source}")
endfunction()
