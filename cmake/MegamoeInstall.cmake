# Install rules: headers, library, CMake package, pkg-config file. The command installs itself in tools/megamoe.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/megamoe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(TARGETS megamoe EXPORT megamoeTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# find_package(megamoe): the archive needs threads and fmt, and MPI when its group was built in.
set(MM_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/megamoe)
install(EXPORT megamoeTargets NAMESPACE megamoe:: DESTINATION ${MM_PACKAGE_FOLDER})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/megamoeConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/megamoeConfig.cmake INSTALL_DESTINATION ${MM_PACKAGE_FOLDER})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/megamoeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/megamoeConfig.cmake ${PROJECT_BINARY_DIR}/megamoeConfigVersion.cmake
        DESTINATION ${MM_PACKAGE_FOLDER})

# pkg-config: only an archive is installed, so plain --libs must name all that it needs, for a C linker too.
set(MM_PC_LIBS "-lfmt -lstdc++ -lm -pthread")
if(MM_HAVE_HWLOC)
  string(APPEND MM_PC_LIBS " -lhwloc")
endif()
if(MPI_CXX_FOUND)
  list(JOIN MPI_CXX_LIBRARIES " " MM_PC_MPI_LIBS)
  string(APPEND MM_PC_LIBS " ${MM_PC_MPI_LIBS}")
endif()
if(MM_HAVE_CUDA)
  string(APPEND MM_PC_LIBS " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
if(MM_SANITIZE)
  string(APPEND MM_PC_LIBS " -fsanitize=${MM_SANITIZE_LIST}")
endif()
# The prefix is known only when `cmake --install --prefix` runs: the file finds it from where it stands.
file(RELATIVE_PATH MM_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/megamoe.pc.in ${PROJECT_BINARY_DIR}/megamoe.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/megamoe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
