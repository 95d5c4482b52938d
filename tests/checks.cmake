# SPDX-License-Identifier: Apache-2.0
# Checks of the source tree and of the installed files, run once, on the release build.
set(scripts "${PROJECT_SOURCE_DIR}/scripts")
set(readme "${PROJECT_SOURCE_DIR}/README.md")
set(reference "${PROJECT_BINARY_DIR}/reference") # of the command line and of C, written from the program and the header

dpmf_test(check_format LABELS check COMMAND "${scripts}/check_format.sh")
dpmf_test(check_repeats LABELS check COMMAND "${PYTHON3}" "${scripts}/check_repeats.py")
dpmf_test(check_repeats_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_repeats.py" --self-test)
dpmf_test(check_include_law LABELS check COMMAND "${PYTHON3}" "${scripts}/check_include_law.py")
dpmf_test(check_include_law_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_include_law.py" --self-test)
dpmf_test(check_object_law LABELS check
          COMMAND "${PYTHON3}" "${scripts}/check_object_law.py" "${PROJECT_BINARY_DIR}/CMakeFiles/dpmf_objects.dir/src"
          ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
dpmf_test(check_object_law_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_object_law.py" --self-test
          ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
dpmf_test(check_tests LABELS check COMMAND "${PYTHON3}" "${scripts}/check_tests.py")
dpmf_test(check_tests_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_tests.py" --self-test)
dpmf_test(check_names LABELS check COMMAND "${PYTHON3}" "${scripts}/check_names.py")
dpmf_test(check_names_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_names.py" --self-test)
dpmf_test(check_readme LABELS check
          COMMAND "${PYTHON3}" "${scripts}/check_readme.py" "${readme}" "${PROJECT_SOURCE_DIR}/examples/readme_example.c")
dpmf_test(check_readme_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_readme.py" --self-test)
dpmf_test(check_words LABELS check COMMAND "${PYTHON3}" "${scripts}/check_words.py")
dpmf_test(check_words_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_words.py" --self-test)
dpmf_test(check_docs LABELS check COMMAND "${PYTHON3}" "${scripts}/check_docs.py")
dpmf_test(check_docs_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_docs.py" --self-test)
dpmf_test(check_spelling LABELS check COMMAND "${scripts}/check_spelling.sh" "${PROJECT_BINARY_DIR}/venv/bin/codespell")
dpmf_test(check_snippets_itself LABELS check COMMAND "${PYTHON3}" "${scripts}/check_snippets.py" --self-test)
if("$ENV{DPMF_ALL}" STREQUAL "1")
    dpmf_test(check_site LABELS check COMMAND "${scripts}/build_site.sh" $<TARGET_FILE:dpmf_program>)
endif()
if(TARGET dpmf)
    dpmf_test(check_symbols LABELS check COMMAND "${scripts}/check_symbols.sh" $<TARGET_FILE:dpmf> $<TARGET_FILE:dpmf_static>)
    dpmf_test(check_install LABELS check COMMAND "${scripts}/test_install.sh" "${PROJECT_BINARY_DIR}")
endif()
if(TARGET dpmf_program)
    dpmf_test(check_snippets LABELS check COMMAND "${PYTHON3}" "${scripts}/check_snippets.py" $<TARGET_FILE:dpmf_program>)
    dpmf_test(check_snippets_all LABELS check long
              COMMAND "${PYTHON3}" "${scripts}/check_snippets.py" $<TARGET_FILE:dpmf_program> --all)
    dpmf_test(write_reference LABELS check
              COMMAND "${PYTHON3}" "${scripts}/generate_reference.py" $<TARGET_FILE:dpmf_program> "${reference}")
    dpmf_test(check_reference LABELS check COMMAND "${PYTHON3}" "${scripts}/check_docs.py" --words "${reference}")
    set_tests_properties(write_reference PROPERTIES FIXTURES_SETUP reference)
    set_tests_properties(check_reference PROPERTIES FIXTURES_REQUIRED reference)
    dpmf_test(check_version LABELS check
              COMMAND "${scripts}/check_version.sh" "${PROJECT_VERSION}" $<TARGET_FILE:dpmf_program>)
    if("$ENV{DPMF_ALL}" STREQUAL "1" AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT DPMF_SANITIZE) # a minute: once is enough
        dpmf_test(check_demo LABELS check COMMAND "${scripts}/demo.sh" $<TARGET_FILE:dpmf_program>)
    endif()
    dpmf_test(check_safetensors LABELS check
              COMMAND "${PROJECT_BINARY_DIR}/venv/bin/python" "${CMAKE_CURRENT_SOURCE_DIR}/python/check_safetensors.py"
              ENVIRONMENT "DPMF=$<TARGET_FILE:dpmf_program>" "DPMF_TEST_ARRAY=$<TARGET_FILE:test_base_array>"
                          PYTHONDONTWRITEBYTECODE=1)
endif()

# Computes some of the accountants' reference values again, independently of the library, in arithmetic of 90 digits.
dpmf_test(check_reference_accounting LABELS check long
          COMMAND "${PROJECT_BINARY_DIR}/venv/bin/python" "${CMAKE_CURRENT_SOURCE_DIR}/python/reference_accounting.py"
                  --check 20 "${CMAKE_CURRENT_SOURCE_DIR}/data/accounting.csv"
          ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

# Computes 10^6 numbers of the exact release again from the key, in arithmetic of 400 bits.
dpmf_test(check_reference_whole LABELS check long
          COMMAND "${PROJECT_BINARY_DIR}/venv/bin/python" "${CMAKE_CURRENT_SOURCE_DIR}/python/reference_whole.py" check 1000000
          ENVIRONMENT "DPMF=$<TARGET_FILE:dpmf_program>" PYTHONDONTWRITEBYTECODE=1)
