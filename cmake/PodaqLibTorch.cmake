# One imported target, `podaq::libtorch`, from a LibTorch prefix: the folder that holds include/ and lib/.
#
# The prefix is, in this order: -DPODAQ_LIBTORCH=<prefix>, a LibTorch found through CMAKE_PREFIX_PATH, the copy that
# scripts/fetch_libtorch puts into the cache folder. LibTorch's own TorchConfig is not used: the wheel's wants a CUDA
# toolkit.
#
# LibTorch's include folder also carries other projects' headers (fmt, pybind11, oneDNN, …). They must shadow no one
# else's, so the target's include folder is a farm of links to LibTorch's own folders alone.
#
# Both podaq's own build and its installed package configuration include this file.

set(PODAQ_LIBTORCH "" CACHE PATH "LibTorch prefix (holds include/ and lib/); empty: search, then the podaq cache")
set(PODAQ_LIBTORCH_OLDEST 2.11)

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

# podaq_libtorch_prefix(<out> [<fallback>...]): the prefix to use, whether or not it holds a LibTorch. A fallback is
# taken only if it holds one.
function(podaq_libtorch_prefix out)
  set(prefix "${PODAQ_LIBTORCH}")
  if(NOT prefix)
    find_library(library NAMES torch_cpu PATHS ${CMAKE_PREFIX_PATH} ${ARGN} PATH_SUFFIXES lib NO_DEFAULT_PATH NO_CACHE)
    if(library)
      cmake_path(GET library PARENT_PATH prefix)
      cmake_path(GET prefix PARENT_PATH prefix)
    else()
      podaq_default_libtorch_prefix(prefix)
    endif()
  endif()
  cmake_path(ABSOLUTE_PATH prefix NORMALIZE)
  set(${out} "${prefix}" PARENT_SCOPE)
endfunction()

# The version of the LibTorch at the prefix, empty if there is none.
function(podaq_libtorch_version prefix out)
  set(${out} "" PARENT_SCOPE)
  if(NOT EXISTS "${prefix}/lib/libtorch_cpu.so" OR NOT EXISTS "${prefix}/lib/libc10.so")
    return()
  endif()
  # The numbers moved from the second header to the first.
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS "${prefix}/include/${header}")
      file(READ "${prefix}/include/${header}" text)
      set(number "[ \t]+([0-9]+)")
      set(any ".*define TORCH_VERSION_")
      if(text MATCHES "${any}MAJOR${number}${any}MINOR${number}${any}PATCH${number}")
        set(${out} "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# Defines podaq::libtorch.
function(podaq_import_libtorch prefix)
  set(farm "${CMAKE_BINARY_DIR}/libtorch-include")
  file(REMOVE_RECURSE "${farm}")
  file(MAKE_DIRECTORY "${farm}")
  foreach(folder ATen c10 caffe2 torch)
    if(EXISTS "${prefix}/include/${folder}")
      file(CREATE_LINK "${prefix}/include/${folder}" "${farm}/${folder}" SYMBOLIC)
    endif()
  endforeach()

  add_library(podaq::libtorch_c10 SHARED IMPORTED GLOBAL)
  set_target_properties(podaq::libtorch_c10 PROPERTIES IMPORTED_LOCATION "${prefix}/lib/libc10.so")
  add_library(podaq::libtorch SHARED IMPORTED GLOBAL)
  set_target_properties(podaq::libtorch PROPERTIES
    IMPORTED_LOCATION "${prefix}/lib/libtorch_cpu.so"
    INTERFACE_INCLUDE_DIRECTORIES "${farm};${farm}/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${farm};${farm}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES podaq::libtorch_c10)
  # The CUDA backend registers itself when its library is loaded; no symbol of it is referenced, so the linker would
  # drop it.
  if(EXISTS "${prefix}/lib/libtorch_cuda.so")
    set_property(TARGET podaq::libtorch APPEND PROPERTY INTERFACE_LINK_OPTIONS
      "LINKER:--push-state,--no-as-needed,${prefix}/lib/libtorch_cuda.so,--pop-state")
  endif()
endfunction()

# podaq_find_libtorch([<fallback prefix>...]): defines podaq::libtorch and sets PODAQ_LIBTORCH_VERSION and
# PODAQ_LIBTORCH_PREFIX, or else sets PODAQ_LIBTORCH_PROBLEM to the reason and the remedy.
function(podaq_find_libtorch)
  set(PODAQ_LIBTORCH_PROBLEM "" PARENT_SCOPE)
  podaq_libtorch_prefix(prefix ${ARGN})
  podaq_libtorch_version("${prefix}" version)
  if(NOT version)
    string(CONCAT problem "podaq: no LibTorch at '${prefix}'. Run podaq's scripts/fetch_libtorch, or give "
                          "-DPODAQ_LIBTORCH=<prefix> (the folder that holds include/ and lib/)")
    set(PODAQ_LIBTORCH_PROBLEM "${problem}" PARENT_SCOPE)
    return()
  elseif(version VERSION_LESS PODAQ_LIBTORCH_OLDEST)
    set(PODAQ_LIBTORCH_PROBLEM
        "podaq: LibTorch ${version} at '${prefix}' is older than ${PODAQ_LIBTORCH_OLDEST}, the oldest supported"
        PARENT_SCOPE)
    return()
  endif()
  if(NOT TARGET podaq::libtorch)
    message(STATUS "podaq: LibTorch ${version} at ${prefix}")
    podaq_import_libtorch("${prefix}")
  endif()
  set(PODAQ_LIBTORCH_VERSION "${version}" PARENT_SCOPE)
  set(PODAQ_LIBTORCH_PREFIX "${prefix}" PARENT_SCOPE)
endfunction()
