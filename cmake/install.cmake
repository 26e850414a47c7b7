# Component `library`: headers, both libraries, weft.pc and the CMake package. All of it can be moved to another prefix after.

include(CMakePackageConfigHelpers)

install(FILES ${PROJECT_SOURCE_DIR}/include/weft.h ${PROJECT_SOURCE_DIR}/include/weft_prefix.h ${PROJECT_SOURCE_DIR}/include/weft.hpp
              ${PROJECT_SOURCE_DIR}/include/weft_patterns.hpp ${PROJECT_SOURCE_DIR}/include/weft_memory.hpp
              ${PROJECT_SOURCE_DIR}/include/weft_coroutine.hpp ${PROJECT_SOURCE_DIR}/include/weft_execution.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
# The manual pages of the interface come from the headers' comments.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND AND NOT WEFT_PREFIX)
    set(man_pages ${CMAKE_CURRENT_BINARY_DIR}/man3)
    install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/man ${man_pages} COMMAND_ERROR_IS_FATAL ANY)"
            COMPONENT library)
    install(DIRECTORY ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT library)
elseif(NOT WEFT_PREFIX)
    message(STATUS "no manual pages: python3 is not installed")
endif()
install(TARGETS weft_shared weft_static EXPORT weft-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/${weft_name})
install(EXPORT weft-targets FILE ${weft_name}-targets.cmake NAMESPACE ${weft_name}:: DESTINATION ${package_dir} COMPONENT library)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weft-config.cmake.in ${weft_name}-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 each minor version may change the interface.
write_basic_package_version_file(${weft_name}-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${weft_name}-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/${weft_name}-config-version.cmake
        DESTINATION ${package_dir} COMPONENT library)

file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(kind INCLUDE LIB) # absolute ones stay so
    cmake_path(APPEND pc_${kind} "\${prefix}" "${CMAKE_INSTALL_${kind}DIR}")
endforeach()
if(WEFT_PREFIX)
    set(pc_prefix " -DWEFT_PREFIX=${WEFT_PREFIX}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${weft_name}.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${weft_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
