/* SPDX-License-Identifier: Apache-2.0 */
/* A machine without devices: a clear message, and the library's own rows as ever. */
#include "device/streams.h"

#include <dlfcn.h>
#include <stdlib.h>

static void check_own_rows(void) {
    dpmf_mechanism *mechanism = case_mechanism(8, 12);
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    dpmf_noise *noise = NULL;
    float row[10];
    check_ok(dpmf_noise_create(mechanism, 10, 1, key, NULL, &noise));
    check_ok(dpmf_noise_next(noise, row));
    dpmf_noise_free(noise);
    dpmf_mechanism_free(mechanism);
}

static void test_without_a_cuda_driver_the_message_says_so(void **state) {
    dpmf_device *device = NULL;
    (void)state;
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL) {
        print_message("this machine has a CUDA driver\n");
        skip();
    }
    check_device_fails(DPMF_ERROR_UNSUPPORTED, "no CUDA driver on this machine: libcuda.so.1 cannot be opened",
                       dpmf_device_open("cuda", NULL, &device));
    assert_null(device);
    check_own_rows();
}

/* main has taken the list of drivers away; a machine without the library at all gets the other message. */
static void test_without_an_opencl_device_the_message_says_so(void **state) {
    const int has_library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL) != NULL;
    dpmf_device *device = NULL;
    (void)state;
    check_device_fails(DPMF_ERROR_UNSUPPORTED,
                       has_library ? "opencl:0: there are 0 OpenCL devices on this machine"
                                   : "no OpenCL library on this machine: libOpenCL.so.1 cannot be opened",
                       dpmf_device_open("opencl", NULL, &device));
    assert_null(device);
    check_own_rows();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_a_cuda_driver_the_message_says_so),
                                       cmocka_unit_test(test_without_an_opencl_device_the_message_says_so)};
    if (setenv("OCL_ICD_VENDORS", "/nonexistent/", 1) != 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
