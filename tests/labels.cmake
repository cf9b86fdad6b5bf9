# label_test(<test> <name of GoogleTest> <room>): a test is labelled with its room and its kind, which is `unit` but for
# test suites whose names end in Property, Golden, EndToEnd or Fuzz.
function(label_test test name room)
  set(kind unit)
  foreach(entry Property=property Golden=golden EndToEnd=e2e Fuzz=fuzz)
    string(REPLACE "=" ";" entry "${entry}")
    list(GET entry 0 ending)
    list(GET entry 1 label)
    if("${name}" MATCHES "${ending}(Test)?(/[0-9]+)?\\.")
      set(kind ${label})
    endif()
  endforeach()
  set_tests_properties("${test}" PROPERTIES LABELS "${kind};${room}")
endfunction()
