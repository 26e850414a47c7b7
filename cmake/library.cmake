# The library: objects of the shared form, which tests link, so that they reach internals; and objects of the static one.
# These export nothing, so that each shared library that links them has a copy of its own.

# Their files are compiled one by one to machine code, whatever a surrounding project has chosen: they share static names,
# and what becomes of weft_static below is not for a linker's plugin.
foreach(objects weft_objects weft_embedded)
    add_library(${objects} OBJECT ${WEFT_SOURCES})
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden UNITY_BUILD OFF
                          COMPILE_WARNING_AS_ERROR OFF) # WEFT_WERROR is
    target_include_directories(${objects} PUBLIC ${PROJECT_SOURCE_DIR}/include)
    # Internal headers answer to quotes alone: a header of libc with the same name stays libc's.
    target_compile_options(${objects} PUBLIC "SHELL:-iquote ${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${objects} PUBLIC Threads::Threads PRIVATE weft_flags)
    target_compile_options(${objects} PRIVATE -Wpedantic -Wmissing-prototypes -fno-semantic-interposition -fno-lto)
    target_compile_definitions(${objects} PUBLIC $<$<BOOL:${WEFT_CHECKED}>:WEFT_CHECKED>)
endforeach()
target_compile_definitions(weft_embedded PRIVATE WEFT_STATIC)
# So that a program that links with --gc-sections gets no more than it uses: the object below is one file.
target_compile_options(weft_embedded PRIVATE -ffunction-sections -fdata-sections)

add_library(weft_shared SHARED $<TARGET_OBJECTS:weft_objects>)
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME ${weft_name} VERSION ${PROJECT_VERSION} SOVERSION ${WEFT_SOVERSION}
                      LINKER_LANGUAGE C EXPORT_NAME weft)
target_link_libraries(weft_shared PRIVATE $<BUILD_INTERFACE:weft_flags>)
# Each symbol has the version of the interface, so that libraries that need different ones can be in one process.
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.map.in ${CMAKE_CURRENT_BINARY_DIR}/weft.map @ONLY)
target_link_options(weft_shared PRIVATE -Wl,--version-script=${CMAKE_CURRENT_BINARY_DIR}/weft.map)
set_target_properties(weft_shared PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/weft.map)
# A program may close the last plugin that uses the library while a pool's threads run in it.
target_link_options(weft_shared PRIVATE -Wl,-z,nodelete)
if(NOT WEFT_SANITIZE)
    # clang leaves a sanitizer's own symbols to the program.
    target_link_options(weft_shared PRIVATE -Wl,--no-undefined)
endif()

# The static library is one object where all but weft's functions is local: internal names cannot clash with a program's.
# The base of static probes stays: the linker keeps one of a program's, hidden and weak.
set(weft_object ${CMAKE_CURRENT_BINARY_DIR}/weft.o)
add_custom_command(OUTPUT ${weft_object}
                   COMMAND ${CMAKE_LINKER} -r -o ${weft_object} $<TARGET_OBJECTS:weft_embedded>
                   COMMAND ${CMAKE_OBJCOPY} --wildcard "--keep-global-symbol=!weft_panic" "--keep-global-symbol=${weft_name}_*"
                           --keep-global-symbol=_.stapsdt.base ${weft_object}
                   DEPENDS weft_embedded $<TARGET_OBJECTS:weft_embedded> COMMAND_EXPAND_LISTS VERBATIM)
add_library(weft_static STATIC ${weft_object})
set_source_files_properties(${weft_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(weft_static PROPERTIES OUTPUT_NAME ${weft_name} LINKER_LANGUAGE C)

foreach(form weft_shared weft_static)
    target_include_directories(${form} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
target_link_libraries(weft_static INTERFACE Threads::Threads)
target_compile_definitions(weft_static INTERFACE WEFT_STATIC)
if(WEFT_PREFIX)
    foreach(target weft_objects weft_embedded)
        target_compile_definitions(${target} PUBLIC WEFT_PREFIX=${WEFT_PREFIX})
    endforeach()
    foreach(target weft_shared weft_static)
        target_compile_definitions(${target} INTERFACE WEFT_PREFIX=${WEFT_PREFIX})
    endforeach()
endif()
if(NOT PROJECT_IS_TOP_LEVEL AND NOT WEFT_INSTALL)
    set_target_properties(weft_objects weft_embedded weft_shared weft_static PROPERTIES EXCLUDE_FROM_ALL ON) # only what is linked is built
endif()

add_library(weft::weft_static ALIAS weft_static)
if(BUILD_SHARED_LIBS)
    add_library(weft::weft ALIAS weft_shared)
else()
    add_library(weft::weft ALIAS weft_static)
endif()
