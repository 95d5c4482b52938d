/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals: devices that do not give the bits, arguments that make no sense, more memory than there is. */
#include "device/streams.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_a_device_that_fuses_operations_is_refused(void **state) {
    const dpmf_device_options o = {.fault = DPMF_DEVICE_FUSED};
    dpmf_device *device = NULL;
    (void)state;
    (void)the_device();
    check_device_fails(DPMF_ERROR_UNSUPPORTED, "does not give the noise's bits",
                       dpmf_device_open("opencl", &o, &device));
    assert_null(device);
    assert_non_null(
        strstr(dpmf_device_last_error(), "by libdpmf")); /* the first number that differs, and what it is there */
}

static void test_one_wrong_entry_of_a_table_is_found(void **state) {
    const dpmf_device_options o = {.fault = DPMF_DEVICE_TABLE};
    dpmf_device *device = NULL;
    (void)state;
    (void)the_device();
    check_device_fails(DPMF_ERROR_UNSUPPORTED, "does not give the noise's bits",
                       dpmf_device_open("opencl", &o, &device));
    assert_null(device);
}

static void test_a_device_that_breaks_later_gets_no_stream(void **state) {
    const dpmf_device_options o = {.fault = DPMF_DEVICE_TABLE_LATER};
    dpmf_mechanism *mechanism = case_mechanism(0, 12);
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    dpmf_device *device = NULL;
    dpmf_device_noise *noise = NULL;
    (void)state;
    (void)the_device();
    check_device_ok(dpmf_device_open("opencl", &o, &device));
    check_device_fails(DPMF_ERROR_UNSUPPORTED, "row 0, coordinate",
                       dpmf_device_noise_create(device, mechanism, 100, 1, key, NULL, &noise));
    assert_null(noise);
    dpmf_device_close(device);
    dpmf_mechanism_free(mechanism);
}

static void test_more_memory_than_there_is_is_refused(void **state) {
    dpmf_device *device = the_device();
    dpmf_mechanism *mechanism = case_mechanism(8, 12);
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    dpmf_device_noise *noise = NULL;
    float row[10];
    (void)state;
    check_device_fails(DPMF_ERROR_MEMORY, "bytes",
                       dpmf_device_noise_create(device, mechanism, (int64_t)1 << 40, 1, key, NULL, &noise));
    check_device_fails(DPMF_ERROR_MEMORY, "",
                       dpmf_device_noise_create(device, mechanism, (int64_t)1 << 53, 1, key, NULL, &noise));
    assert_null(noise);
    check_device_ok(dpmf_device_noise_create(device, mechanism, 10, 1, key, NULL, &noise)); /* the device lives on */
    check_device_ok(dpmf_device_noise_next(noise, DPMF_DEVICE_FLOAT32, row, NULL));
    dpmf_device_noise_free(noise);
    dpmf_mechanism_free(mechanism);
}

static void test_families_without_recipes_are_refused(void **state) {
    dpmf_device *device = the_device();
    dpmf_workload *workload = workload_of("prefix", 12);
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_device_noise *noise = NULL;
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    (void)state;
    check_ok(dpmf_strategy_create("tree", workload, NULL, &strategy));
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    about.sigma = 1;
    check_ok(dpmf_mechanism_create(workload, NULL, strategy, &about, &mechanism));
    check_device_fails(DPMF_ERROR_UNSUPPORTED, "'tree'",
                       dpmf_device_noise_create(device, mechanism, 10, 1, key, NULL, &noise));
    dpmf_mechanism_free(mechanism);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
}

/* Signs reach less than vectors (Choquette-Choo et al. 2023, Appendix H.2): its noise is too small for two columns. */
static void test_a_mechanism_for_one_column_gets_no_stream_of_more(void **state) {
    const double matrix[9] = {0.2, 0, 0, 0.4, 0.45, 0, 0.25, -0.25, 0.5};
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_workload *workload = workload_of("prefix", 3);
    dpmf_participation *full = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_device_noise *noise = NULL;
    (void)state;
    about.sigma = 1;
    about.evaluate.columns = 1;
    check_ok(dpmf_strategy_create_dense(3, matrix, &strategy));
    check_ok(dpmf_participation_parse("full", 3, &full));
    check_ok(dpmf_mechanism_create(workload, full, strategy, &about, &mechanism));
    assert_int_equal(dpmf_mechanism_get(mechanism).evaluation.sensitivity.columns, 1);
    check_device_fails(DPMF_ERROR_ARGUMENT, "one column",
                       dpmf_device_noise_create(the_device(), mechanism, 2, 1, key, NULL, &noise));
    assert_null(noise);
    dpmf_mechanism_free(mechanism);
    dpmf_participation_free(full);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
}

static void test_arguments_out_of_range_are_refused(void **state) {
    dpmf_device *device = the_device(), *none = NULL;
    dpmf_mechanism *mechanism = case_mechanism(8, 12);
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_device_noise *noise = NULL;
    float row[10];
    const dpmf_segment nine = {row, 9}, ten = {row, 10}, nowhere = {NULL, 10};
    (void)state;
    check_device_fails(DPMF_ERROR_ARGUMENT, "'metal'", dpmf_device_open("metal", NULL, &none));
    check_device_fails(DPMF_ERROR_ARGUMENT, "'opencl:x'", dpmf_device_open("opencl:x", NULL, &none));
    check_device_fails(DPMF_ERROR_ARGUMENT, "accepted: opencl", dpmf_device_open(NULL, NULL, &none));
    check_device_fails(DPMF_ERROR_UNSUPPORTED, "opencl:999", dpmf_device_open("opencl:999", NULL, &none));
    check_device_fails(DPMF_ERROR_ARGUMENT, "fault 9",
                       dpmf_device_open("opencl", &(dpmf_device_options){(dpmf_device_fault)9}, &none));
    o.precision = DPMF_FLOAT64;
    check_device_fails(DPMF_ERROR_UNSUPPORTED, "float32",
                       dpmf_device_noise_create(device, mechanism, 10, 1, key, &o, &noise));
    check_device_fails(DPMF_ERROR_ARGUMENT, "clip",
                       dpmf_device_noise_create(device, mechanism, 10, 0, key, NULL, &noise));
    check_device_ok(dpmf_device_noise_create(device, mechanism, 10, 1, key, NULL, &noise));
    check_device_fails(DPMF_ERROR_ARGUMENT, "9 numbers",
                       dpmf_device_noise_add(noise, 1, DPMF_DEVICE_FLOAT32, 1, &nine, NULL));
    check_device_fails(DPMF_ERROR_ARGUMENT, "NULL",
                       dpmf_device_noise_add(noise, 1, DPMF_DEVICE_FLOAT32, 1, &nowhere, NULL));
    check_device_fails(DPMF_ERROR_ARGUMENT, "type 4",
                       dpmf_device_noise_add(noise, 1, (dpmf_device_type)4, 1, &ten, NULL));
    check_device_fails(DPMF_ERROR_ARGUMENT, "factor",
                       dpmf_device_noise_add(noise, 0, DPMF_DEVICE_FLOAT32, 1, &ten, NULL));
    check_device_fails(DPMF_ERROR_ARGUMENT, "stream",
                       dpmf_device_noise_add(noise, 1, DPMF_DEVICE_FLOAT32, 1, &ten, row));
    check_device_fails(DPMF_ERROR_UNSUPPORTED, "prefetch", dpmf_device_noise_ahead(noise, NULL));
    assert_int_equal(dpmf_device_noise_step(noise), 0); /* none of them took a row */
    dpmf_device_noise_free(noise);
    dpmf_mechanism_free(mechanism);
}

static void test_a_child_gets_no_rows_of_its_parent(void **state) {
    dpmf_device *device = the_device();
    dpmf_mechanism *mechanism = case_mechanism(8, 12);
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    dpmf_device_noise *noise = NULL;
    float row[10];
    int status = 0;
    (void)state;
    check_device_ok(dpmf_device_noise_create(device, mechanism, 10, 1, key, NULL, &noise));
    const pid_t child = fork();
    if (child == 0) {
        const int refused = dpmf_device_noise_next(noise, DPMF_DEVICE_FLOAT32, row, NULL) == DPMF_ERROR_UNSUPPORTED;
        dpmf_device_noise_free(noise);
        _exit(refused ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    dpmf_device_noise_free(noise);
    dpmf_mechanism_free(mechanism);
}

static int close_device(void **state) {
    (void)state;
    close_the_device();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_device_that_fuses_operations_is_refused),
                                       cmocka_unit_test(test_one_wrong_entry_of_a_table_is_found),
                                       cmocka_unit_test(test_a_device_that_breaks_later_gets_no_stream),
                                       cmocka_unit_test(test_more_memory_than_there_is_is_refused),
                                       cmocka_unit_test(test_families_without_recipes_are_refused),
                                       cmocka_unit_test(test_a_mechanism_for_one_column_gets_no_stream_of_more),
                                       cmocka_unit_test(test_arguments_out_of_range_are_refused),
                                       cmocka_unit_test(test_a_child_gets_no_rows_of_its_parent)};
    return cmocka_run_group_tests(tests, NULL, close_device);
}
