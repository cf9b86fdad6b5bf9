# One target, `podaq::zstd`: the header's folder and `-lzstd`, so that the same target serves a program linked with
# shared libraries and one linked with -static (zstd's own CMake package is not in Debian, and pkg-config names the
# shared library by its path).

function(podaq_find_zstd)
  if(TARGET podaq::zstd)
    return()
  endif()
  find_path(PODAQ_ZSTD_INCLUDE_DIR zstd.h)
  find_library(PODAQ_ZSTD_LIBRARY zstd)
  mark_as_advanced(PODAQ_ZSTD_INCLUDE_DIR PODAQ_ZSTD_LIBRARY)
  if(NOT PODAQ_ZSTD_INCLUDE_DIR OR NOT PODAQ_ZSTD_LIBRARY)
    return()
  endif()
  cmake_path(GET PODAQ_ZSTD_LIBRARY PARENT_PATH library_folder)
  add_library(podaq::zstd INTERFACE IMPORTED GLOBAL)
  set_target_properties(podaq::zstd PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${PODAQ_ZSTD_INCLUDE_DIR}"
    INTERFACE_LINK_DIRECTORIES "${library_folder}"
    INTERFACE_LINK_LIBRARIES zstd)
endfunction()
