# Compiler flags. weft_flags is linked by everything of this project and by nothing outside it.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if((CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 11)
   OR (CMAKE_C_COMPILER_ID STREQUAL "Clang" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 14))
    message(FATAL_ERROR "weft needs gcc 11 or clang 14, or later")
endif()

if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
    message(FATAL_ERROR "weft needs a 64-bit system")
endif()

find_package(Threads REQUIRED)

add_library(weft_flags INTERFACE)
# Where nobody has chosen a build type, CMake's is none: no optimisation. Another project's stays none: its exports go by it.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_C_FLAGS MATCHES "-O")
    if(PROJECT_IS_TOP_LEVEL)
        set(CMAKE_BUILD_TYPE Release)
    else()
        target_compile_options(weft_flags INTERFACE -O3)
    endif()
endif()
if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(weft_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>)
else()
    target_compile_options(weft_flags INTERFACE -Wno-error) # another project's -Werror is about its own sources
endif()
if(WEFT_WERROR)
    target_compile_options(weft_flags INTERFACE -Werror)
endif()
if(WEFT_NATIVE)
    target_compile_options(weft_flags INTERFACE -march=native)
endif()
if(WEFT_SANITIZE)
    set(sanitize -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(weft_flags INTERFACE ${sanitize})
    target_link_options(weft_flags INTERFACE ${sanitize})
    if(WEFT_SANITIZE MATCHES "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # ThreadSanitizer does not model fences. weft's fences order flags only, so nothing is hidden by this.
        target_compile_options(weft_flags INTERFACE -Wno-tsan)
    endif()
endif()
