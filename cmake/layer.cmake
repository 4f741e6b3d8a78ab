# vestige_layer(<name> [DEPENDS <layers on the left>...]): a static library of all .cc files below the folder.
function(vestige_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  add_library(vestige_${name} STATIC ${sources})
  add_library(vestige::${name} ALIAS vestige_${name})
  target_include_directories(vestige_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(vestige_${name} PUBLIC cxx_std_20)
  target_link_libraries(vestige_${name} PRIVATE $<BUILD_INTERFACE:vestige_warnings>)
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(vestige_${name} PUBLIC vestige_${dependency})
  endforeach()
  set_target_properties(vestige_${name} PROPERTIES EXPORT_NAME ${name})
endfunction()
