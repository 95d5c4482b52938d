# SPDX-License-Identifier: Apache-2.0
# The rules of `cmake --install`. The CMake package and dpmf.pc may both be moved with the tree they are in.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dpmf)

install(FILES include/dpmf.h include/dpmf_experimental.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Two exports: programs that link the static library need our dependencies too, those that link the shared one do not.
install(TARGETS dpmf_static EXPORT dpmfStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(DPMF_TRAIN)
    install(FILES include/dpmf_train.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(TARGETS dpmf_train_static EXPORT dpmfStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    if(DPMF_SHARED)
        install(TARGETS dpmf_train EXPORT dpmfTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
endif()
install(EXPORT dpmfStaticTargets NAMESPACE dpmf:: DESTINATION ${package_dir})
if(DPMF_SHARED)
    install(TARGETS dpmf EXPORT dpmfTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT dpmfTargets NAMESPACE dpmf:: DESTINATION ${package_dir})
endif()

configure_package_config_file(cmake/dpmfConfig.cmake.in "${PROJECT_BINARY_DIR}/cmake/dpmfConfig.cmake"
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 the interface may change with the minor version.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/dpmfConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cmake/dpmfConfig.cmake" "${PROJECT_BINARY_DIR}/cmake/dpmfConfigVersion.cmake"
        DESTINATION ${package_dir})

# dpmf.pc finds its prefix relative to itself, for any depth of the library directory.
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
list(JOIN OPENBLAS_LDFLAGS " " pc_openblas)
configure_file(cmake/dpmf.pc.in "${PROJECT_BINARY_DIR}/cmake/dpmf.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/cmake/dpmf.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(DPMF_TRAIN)
    configure_file(cmake/dpmf_train.pc.in "${PROJECT_BINARY_DIR}/cmake/dpmf_train.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/cmake/dpmf_train.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(TARGET dpmf_program)
    install(TARGETS dpmf_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

    # The manual page and the completion scripts come from the program's own option table.
    set(own_files "${PROJECT_BINARY_DIR}/share")
    file(MAKE_DIRECTORY "${own_files}")
    add_custom_command(OUTPUT "${own_files}/dpmf.1" "${own_files}/dpmf.bash" "${own_files}/_dpmf"
                       COMMAND dpmf_program help --format man > "${own_files}/dpmf.1"
                       COMMAND dpmf_program help --format bash > "${own_files}/dpmf.bash"
                       COMMAND dpmf_program help --format zsh > "${own_files}/_dpmf"
                       DEPENDS dpmf_program VERBATIM)
    add_custom_target(dpmf_own_files ALL DEPENDS "${own_files}/dpmf.1" "${own_files}/dpmf.bash" "${own_files}/_dpmf")
    add_dependencies(dpmf_products dpmf_own_files)
    install(FILES "${own_files}/dpmf.1" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES "${own_files}/dpmf.bash" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME dpmf)
    install(FILES "${own_files}/_dpmf" DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

if(DPMF_DEVICE)
    install(FILES include/dpmf_device.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(TARGETS dpmf_device LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    configure_file(cmake/dpmf_device.pc.in "${PROJECT_BINARY_DIR}/cmake/dpmf_device.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/cmake/dpmf_device.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(DPMF_MPI)
    install(FILES include/dpmf_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(TARGETS dpmf_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    configure_file(cmake/dpmf_mpi.pc.in "${PROJECT_BINARY_DIR}/cmake/dpmf_mpi.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/cmake/dpmf_mpi.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    if(TARGET dpmf_mpi_program)
        install(TARGETS dpmf_mpi_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
endif()
