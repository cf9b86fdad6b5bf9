# Installs the libraries, programs, headers and the CMake package `podaq`. One export set per library, so that a user
# of the runtime needs what the runtime needs and no more.
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/podaq")
set(PODAQ_INSTALLED_COMPONENTS "")
foreach(entry runtime=runtime tools=tools podaq=training)
  string(REPLACE "=" ";" entry "${entry}")
  list(GET entry 0 library)
  list(GET entry 1 component)
  if(TARGET podaq_${library})
    set_target_properties(podaq_${library} PROPERTIES EXPORT_NAME ${library})
    install(TARGETS podaq_${library} EXPORT podaq-${component}-targets)
    if(library STREQUAL "runtime")
      set_target_properties(podaq_c PROPERTIES EXPORT_NAME c)
      install(TARGETS podaq_c EXPORT podaq-${component}-targets)
    endif()
    install(EXPORT podaq-${component}-targets NAMESPACE podaq:: DESTINATION "${package_folder}")
    list(APPEND PODAQ_INSTALLED_COMPONENTS ${component})
  endif()
endforeach()
foreach(program podaq_program podaq_train_program)
  if(TARGET ${program})
    install(TARGETS ${program})
  endif()
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/podaq-config.cmake.in" "${PROJECT_BINARY_DIR}/podaq-config.cmake"
  INSTALL_DESTINATION "${package_folder}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/podaq-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/podaq-config.cmake" "${PROJECT_BINARY_DIR}/podaq-config-version.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/PodaqZstd.cmake" "${CMAKE_CURRENT_LIST_DIR}/PodaqHdf5.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/PodaqLibTorch.cmake"
  DESTINATION "${package_folder}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
