# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: tests/fuzz/fuzz_NAME.c with driver.c as plain programs for any compiler, or with libFuzzer. make_corpus
# makes the files that they start from. Each runs in a separate directory, where it leaves an input that fails.
set(fuzz_directory "${CMAKE_CURRENT_BINARY_DIR}/fuzz")
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/fuzz_*.c)

add_executable(make_corpus fuzz/make_corpus.c fuzz/corpus_secret.c fuzz/corpus_text.c)
target_link_libraries(make_corpus PRIVATE dpmf_internal)
file(MAKE_DIRECTORY "${fuzz_directory}/corpus")
dpmf_test(fuzz_corpus COMMAND make_corpus "${fuzz_directory}/corpus")
set_tests_properties(fuzz_corpus PROPERTIES FIXTURES_SETUP fuzz_corpus)

if(NOT TARGET dpmf_program_objects) # the readers of the program
    list(FILTER fuzz_sources EXCLUDE REGEX "fuzz_(log|command)\\.c$")
endif()

# Under the sanitizers an execution takes about ten times as long.
set(long_executions 10000000)
if(DPMF_SANITIZE)
    set(long_executions 1000000)
endif()

foreach(source IN LISTS fuzz_sources)
    cmake_path(GET source STEM name)
    string(REPLACE fuzz_ "" reader ${name})
    set(short_executions 20000)
    if(reader MATCHES "^(state|log)$") # its files take the longest to write
        set(short_executions 10000)
    endif()
    set(work "${fuzz_directory}/${reader}")
    file(MAKE_DIRECTORY "${work}/found")

    add_executable(${name} "${source}")
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${name} PRIVATE dpmf_internal PkgConfig::CJSON m)
    if(reader MATCHES "^(log|command)$")
        target_link_libraries(${name} PRIVATE dpmf_program_objects)
    endif()
    if(DPMF_LIBFUZZER)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        set(short ${name} -runs=${short_executions} -max_len=8192 found "${fuzz_directory}/corpus/${reader}")
        set(long ${name} -runs=${long_executions} -max_len=8192 found "${fuzz_directory}/corpus/${reader}")
    else()
        target_sources(${name} PRIVATE fuzz/driver.c)
        set(short ${name} --executions ${short_executions} "${fuzz_directory}/corpus/${reader}")
        set(long ${name} --executions ${long_executions} "${fuzz_directory}/corpus/${reader}")
    endif()
    dpmf_test(${name} COMMAND ${short})
    dpmf_test(${name}_long LABELS long COMMAND ${long})
    set_tests_properties(${name} ${name}_long PROPERTIES FIXTURES_REQUIRED fuzz_corpus WORKING_DIRECTORY "${work}")
endforeach()
