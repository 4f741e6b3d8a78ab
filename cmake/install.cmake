# find_package(vestige) gives vestige::ops, vestige::cache and vestige::engine.
include(CMakePackageConfigHelpers)
