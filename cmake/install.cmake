# find_package(vestige) gives vestige::ops, vestige::cache and vestige::engine; each brings the layers on its left.
include(CMakePackageConfigHelpers)

set_target_properties(vestige_backend PROPERTIES EXPORT_NAME ops)
add_library(vestige::ops ALIAS vestige_backend)

install(TARGETS vestige_base vestige_backend vestige_cache vestige_model vestige_engine EXPORT vestige_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/vestige DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT vestige_targets NAMESPACE vestige:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/vestige)
configure_package_config_file(cmake/vestige-config.cmake.in ${PROJECT_BINARY_DIR}/vestige-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/vestige)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vestige-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/vestige-config.cmake ${PROJECT_BINARY_DIR}/vestige-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/vestige)
if(VESTIGE_BUILD_TOOLS)
  install(TARGETS vestige RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
