# SPDX-License-Identifier: Apache-2.0
# A libdpmf.so that needs the C library alone: all else comes from the static libraries in DPMF_BUNDLE, with hidden symbols, so that
# the OpenBLAS and OpenSSL that NumPy, torch or Python itself have loaded are neither used nor disturbed.
set(archives)
foreach(name IN ITEMS cjson lapacke openblas crypto)
    set(archive "${DPMF_BUNDLE}/lib${name}.a")
    if(NOT EXISTS "${archive}")
        message(FATAL_ERROR "DPMF_BUNDLE has no lib${name}.a")
    endif()
    list(APPEND archives "${archive}")
endforeach()

add_library(dpmf_bundle OBJECT bundle/bundle.c)
set_target_properties(dpmf_bundle PROPERTIES POSITION_INDEPENDENT_CODE ON C_STANDARD 17 C_VISIBILITY_PRESET hidden)
target_sources(dpmf PRIVATE $<TARGET_OBJECTS:dpmf_bundle>)
set_property(TARGET dpmf PROPERTY LINK_LIBRARIES -Wl,--start-group ${archives} -Wl,--end-group Threads::Threads m)
set_property(TARGET dpmf PROPERTY LINK_DEPENDS ${archives})
target_link_options(
    dpmf PRIVATE
    -Wl,--exclude-libs,ALL -Wl,--gc-sections -s
    -Wl,--wrap=blas_memory_alloc,--wrap=blas_memory_free,--wrap=hypot)

# These are the licences of the archives only: the package must contain them for its readers.
file(GLOB licences "${DPMF_BUNDLE}/licenses/*")
install(FILES ${licences} DESTINATION "${SKBUILD_METADATA_DIR}/licenses/bundled" COMPONENT python)
