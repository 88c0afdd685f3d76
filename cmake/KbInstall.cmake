# cmake --install: the program, the libraries with their public headers, topologies and examples, and the CMake package
# that find_package(kernbench) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/kernbench")
set(KB_TOPOLOGIES_DIR "${CMAKE_INSTALL_DATADIR}/kernbench/topologies")

install(TARGETS kernbench)
install(DIRECTORY topologies examples DESTINATION "${CMAKE_INSTALL_DATADIR}/kernbench")
install(FILES README.md LICENSE CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT kernbench NAMESPACE kernbench:: FILE kernbenchTargets.cmake DESTINATION "${package_dir}")
configure_package_config_file(cmake/kernbenchConfig.cmake.in "${PROJECT_BINARY_DIR}/kernbenchConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}" PATH_VARS KB_TOPOLOGIES_DIR)
# Before 1.0 a minor version may change interfaces.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kernbenchConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kernbenchConfig.cmake" "${PROJECT_BINARY_DIR}/kernbenchConfigVersion.cmake"
              cmake/KbSystemC.cmake
        DESTINATION "${package_dir}")
