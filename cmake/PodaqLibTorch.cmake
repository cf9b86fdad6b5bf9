# One imported target, `podaq::libtorch`, from a LibTorch prefix: the folder that holds include/ and lib/.
#
# The prefix is, in this order: -DPODAQ_LIBTORCH=<prefix>, a LibTorch found through CMAKE_PREFIX_PATH, the copy that
# scripts/fetch_libtorch puts into the cache folder. LibTorch's own TorchConfig is not used: the wheel's wants a CUDA
# toolkit.
#
# LibTorch's include folder also carries other projects' headers (fmt, pybind11, oneDNN, …). They must shadow no one
# else's, so the target's include folder is a farm of links to LibTorch's own folders alone.

set(PODAQ_LIBTORCH "" CACHE PATH "LibTorch prefix (holds include/ and lib/); empty: search, then the podaq cache")

function(podaq_default_libtorch_prefix out)
  if(DEFINED ENV{PODAQ_CACHE})
    set(cache "$ENV{PODAQ_CACHE}")
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(cache "$ENV{XDG_CACHE_HOME}/podaq")
  else()
    set(cache "$ENV{HOME}/.cache/podaq")
  endif()
  set(${out} "${cache}/libtorch-2.15.0" PARENT_SCOPE)
endfunction()

function(podaq_find_libtorch)
  if(TARGET podaq::libtorch)
    return()
  endif()
  set(prefix "${PODAQ_LIBTORCH}")
  if(NOT prefix)
    find_library(found NAMES torch_cpu PATHS ${CMAKE_PREFIX_PATH} PATH_SUFFIXES lib NO_DEFAULT_PATH NO_CACHE)
    if(found)
      cmake_path(GET found PARENT_PATH prefix)
      cmake_path(GET prefix PARENT_PATH prefix)
    else()
      podaq_default_libtorch_prefix(prefix)
    endif()
  endif()
  set(version_header "${prefix}/include/torch/csrc/api/include/torch/version.h")
  if(NOT EXISTS "${version_header}" OR NOT EXISTS "${prefix}/lib/libtorch_cpu.so")
    message(FATAL_ERROR "podaq: no LibTorch at '${prefix}'. Run scripts/fetch_libtorch, or give -DPODAQ_LIBTORCH=<prefix>, "
                        "or build without training: -DPODAQ_TRAINING=OFF.")
  endif()
  file(STRINGS "${version_header}" version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" version "${version_lines}")
  if(version VERSION_LESS 2.11)
    message(FATAL_ERROR "podaq: LibTorch ${version} at '${prefix}' is older than 2.11, the oldest that podaq supports.")
  endif()
  message(STATUS "podaq: LibTorch ${version} at ${prefix}")

  set(farm "${CMAKE_BINARY_DIR}/libtorch-include")
  file(MAKE_DIRECTORY "${farm}")
  foreach(folder ATen c10 caffe2 torch)
    file(CREATE_LINK "${prefix}/include/${folder}" "${farm}/${folder}" SYMBOLIC)
  endforeach()

  add_library(podaq_libtorch_c10 SHARED IMPORTED GLOBAL)
  set_target_properties(podaq_libtorch_c10 PROPERTIES IMPORTED_LOCATION "${prefix}/lib/libc10.so")
  add_library(podaq::libtorch SHARED IMPORTED GLOBAL)
  set_target_properties(podaq::libtorch PROPERTIES
    IMPORTED_LOCATION "${prefix}/lib/libtorch_cpu.so"
    INTERFACE_INCLUDE_DIRECTORIES "${farm};${farm}/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${farm};${farm}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES podaq_libtorch_c10)
  set(PODAQ_LIBTORCH_VERSION "${version}" PARENT_SCOPE)
endfunction()
