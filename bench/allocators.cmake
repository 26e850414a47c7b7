# The allocators of the race: name, library to preload or "libc" or "-", reason why there is none. A relative path starts at
# the entrants' directory, in the build tree and installed alike.
set(allocator_list "glibc\tlibc\t\n")

function(allocator name package library)
    find_library(WEFT_ALLOCATOR_${name} NAMES ${library})
    if(WEFT_ALLOCATOR_${name})
        string(APPEND allocator_list "${name}\t${WEFT_ALLOCATOR_${name}}\t\n")
    else()
        string(APPEND allocator_list "${name}\t-\tpackage ${package} is not installed\n")
        message(STATUS "race without ${name}: package ${package} is not installed")
    endif()
    set(allocator_list "${allocator_list}" PARENT_SCOPE)
endfunction()

allocator(jemalloc libjemalloc2 libjemalloc.so.2)
allocator(tcmalloc libtcmalloc-minimal4 libtcmalloc_minimal.so.4)
allocator(mimalloc libmimalloc2.0 libmimalloc.so.2.0)
string(APPEND allocator_list "weft\t../../libweft-malloc.so\t\n")

file(WRITE ${entrant_dir}/allocators.txt "${allocator_list}")
install(FILES ${entrant_dir}/allocators.txt DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft/entrants COMPONENT race)
