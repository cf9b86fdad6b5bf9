# One target, `podaq::hdf5`: the C library. Only programs that read or write HDF5 are to need it when they start, though
# all of podaq::tools is offered with it.

function(podaq_find_hdf5)
  if(TARGET podaq::hdf5)
    return()
  endif()
  # Debian keeps the serial library apart from those that use MPI.
  find_path(PODAQ_HDF5_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
  find_library(PODAQ_HDF5_LIBRARY NAMES hdf5_serial hdf5)
  mark_as_advanced(PODAQ_HDF5_INCLUDE_DIR PODAQ_HDF5_LIBRARY)
  if(NOT PODAQ_HDF5_INCLUDE_DIR OR NOT PODAQ_HDF5_LIBRARY)
    return()
  endif()
  add_library(podaq::hdf5 INTERFACE IMPORTED GLOBAL)
  set_target_properties(podaq::hdf5 PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${PODAQ_HDF5_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "-Wl,--push-state,--as-needed,${PODAQ_HDF5_LIBRARY},--pop-state")
endfunction()
