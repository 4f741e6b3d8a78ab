set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # the OpenBLAS that was linked, not the one the system prefers
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(VESTIGE_BUILD_TOOLS "Build the vestige binary" ON)
option(VESTIGE_BUILD_TESTS "Build the tests" ON)
option(VESTIGE_BUILD_BENCH "Build the benches" ON)
option(VESTIGE_STATIC "Link the vestige binary without shared libraries (scripts/build_static.sh)" OFF)
set(VESTIGE_SANITIZE "" CACHE STRING "Value for -fsanitize=, e.g. address,undefined or thread")

# No -march: the CPU backend picks its instruction set at run time (Highway), so one build runs anywhere.
# -ffp-contract=off keeps the compiler from fusing multiplies and adds where the source does not say so.
add_compile_options(-ffp-contract=off -fno-math-errno)
if(VESTIGE_SANITIZE)
  add_compile_options(-fsanitize=${VESTIGE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VESTIGE_SANITIZE})
endif()
if(VESTIGE_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_definitions(VESTIGE_ENABLE_CHECKS)
endif()

find_program(VESTIGE_CCACHE ccache)
if(VESTIGE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${VESTIGE_CCACHE})
endif()
