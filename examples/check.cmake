# Runs PROGRAM and compares what it prints with the file EXPECTED.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE result)
file(READ ${EXPECTED} expected)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "ended with ${result}")
elseif(NOT printed STREQUAL expected)
    message(FATAL_ERROR "printed\n${printed}instead of\n${expected}")
endif()
