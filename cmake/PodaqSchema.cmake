# podaq_schema_headers(<target> <schema.fbs>): compiles a FlatBuffers schema to C++ while building. The schema
# src/<room>/x.fbs is included as "<room>/x_generated.h". The target carries the include folder, FlatBuffers' headers
# and the dependency; nothing of FlatBuffers is linked, its C++ side is header-only.
function(podaq_schema_headers target schema)
  find_package(FlatBuffers CONFIG REQUIRED)
  find_program(PODAQ_FLATC flatc REQUIRED)
  cmake_path(GET schema STEM stem)
  cmake_path(RELATIVE_PATH schema BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src" OUTPUT_VARIABLE relative)
  cmake_path(GET relative PARENT_PATH room)
  set(folder "${PROJECT_BINARY_DIR}/generated/${room}")
  set(header "${folder}/${stem}_generated.h")
  add_custom_command(OUTPUT "${header}"
    COMMAND "${PODAQ_FLATC}" --cpp --cpp-std c++17 --scoped-enums --warnings-as-errors -o "${folder}" "${schema}"
    DEPENDS "${schema}" COMMENT "Compiling the schema ${relative}" VERBATIM)
  add_custom_target(${target}_generate DEPENDS "${header}")
  add_library(${target} INTERFACE)
  add_dependencies(${target} ${target}_generate)
  get_target_property(flatbuffers_include flatbuffers::flatbuffers INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(${target} SYSTEM INTERFACE "${PROJECT_BINARY_DIR}/generated" ${flatbuffers_include})
endfunction()
