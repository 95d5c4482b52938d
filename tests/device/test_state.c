/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, state files and sums of a device's stream: the library's own, which both can continue from. */
#include "device/streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 12, DIM = 3000, COUNT = 700, OFFSET = 1013 };

static void fresh_path(char path[40], const char *what) {
    snprintf(path, 40, "/tmp/dpmf_%.8s_XXXXXX", what);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    unlink(path);
}

static const uint8_t *the_key(void) {
    static uint8_t key[DPMF_KEY_SIZE];
    check_ok(dpmf_key_testing(29, key));
    return key;
}

static dpmf_noise_options options_of(int64_t offset, int64_t count, const char *state, int replay) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    o.offset = offset;
    o.count = count;
    o.state = state;
    o.replay = replay;
    o.uncalibrated = 1;
    return o;
}

static dpmf_noise *library_stream(const dpmf_mechanism *m, const dpmf_noise_options *o) {
    dpmf_noise *noise = NULL;
    check_ok(dpmf_noise_create(m, DIM, 1, the_key(), o, &noise));
    return noise;
}

static dpmf_device_noise *device_stream(const dpmf_mechanism *m, const dpmf_noise_options *o) {
    dpmf_device_noise *noise = NULL;
    check_device_ok(dpmf_device_noise_create(the_device(), m, DIM, 1, the_key(), o, &noise));
    return noise;
}

static void device_row(dpmf_device_noise *noise, float *row) {
    check_device_ok(dpmf_device_noise_next(noise, DPMF_DEVICE_FLOAT32, row, NULL));
}

/* ---- checkpoints ---- */

static void check_both_ways(const dpmf_mechanism *m) {
    const dpmf_noise_options o = options_of(OFFSET, COUNT, NULL, 0);
    dpmf_noise *whole = library_stream(m, &o), *own = library_stream(m, &o);
    dpmf_device_noise *other = device_stream(m, &o);
    float wanted[COUNT], got[COUNT];
    char path[40];
    fresh_path(path, "saved");
    for (int t = 0; t < STEPS; t++) { /* the library to 4, the device to 9, the library to the end */
        check_ok(dpmf_noise_next(whole, wanted));
        if (t == 4) {
            check_ok(dpmf_noise_save(own, path));
            check_device_ok(dpmf_device_noise_load(other, path));
            assert_int_equal(dpmf_device_noise_step(other), 4);
        } else if (t == 9) {
            check_device_ok(dpmf_device_noise_save(other, path));
            check_ok(dpmf_noise_load(own, path));
        }
        if (t >= 4 && t < 9)
            device_row(other, got);
        else
            check_ok(dpmf_noise_next(own, got));
        assert_memory_equal(got, wanted, sizeof got);
    }
    unlink(path);
    dpmf_device_noise_free(other);
    dpmf_noise_free(own);
    dpmf_noise_free(whole);
}

static void test_checkpoints_go_to_the_device_and_back(void **state) {
    (void)state;
    (void)the_device();
    for (int which = 0; which < CASES; which++) {
        dpmf_mechanism *m = case_mechanism(which, STEPS);
        check_both_ways(m);
        dpmf_mechanism_free(m);
    }
}

/* Two shards of the library at row 6 become one of the device, which crosses their border, and back. */
static void test_parts_of_other_shards_are_put_together(void **state) {
    char left[40], right[40];
    const char *const parts[] = {left, right};
    float wanted[COUNT], got[COUNT];
    (void)state;
    (void)the_device();
    fresh_path(left, "left");
    fresh_path(right, "right");
    for (int which = 3; which < CASES; which += 5) {
        dpmf_mechanism *m = case_mechanism(which, STEPS);
        const dpmf_noise_options whole = options_of(OFFSET, COUNT, NULL, 0), one = options_of(0, OFFSET + 99, NULL, 0),
                                 two = options_of(OFFSET + 99, DIM - OFFSET - 99, NULL, 0);
        dpmf_noise *expected = library_stream(m, &whole);
        dpmf_device_noise *first = device_stream(m, &one), *second = device_stream(m, &two),
                          *all = device_stream(m, &whole);
        check_device_ok(dpmf_device_noise_seek(first, 6));
        check_device_ok(dpmf_device_noise_seek(second, 6));
        check_device_ok(dpmf_device_noise_save(first, left));
        check_device_ok(dpmf_device_noise_save(second, right));
        check_device_ok(dpmf_device_noise_load_parts(all, 2, parts));
        check_ok(dpmf_noise_seek(expected, 6));
        for (int t = 6; t < STEPS; t++) {
            check_ok(dpmf_noise_next(expected, wanted));
            device_row(all, got);
            assert_memory_equal(got, wanted, sizeof got);
        }
        dpmf_device_noise_free(first);
        dpmf_device_noise_free(second);
        dpmf_device_noise_free(all);
        dpmf_noise_free(expected);
        dpmf_mechanism_free(m);
    }
    unlink(left);
    unlink(right);
}

static void test_saving_with_a_row_ahead_saves_the_row_before_it(void **state) {
    float wanted[COUNT], got[COUNT];
    char path[40];
    (void)state;
    (void)the_device();
    fresh_path(path, "ahead");
    for (int which = 0; which < CASES; which++) {
        dpmf_mechanism *m = case_mechanism(which, STEPS);
        dpmf_noise_options o = options_of(OFFSET, COUNT, NULL, 0);
        dpmf_noise *own = library_stream(m, &o);
        o.prefetch = 1;
        dpmf_device_noise *other = device_stream(m, &o);
        for (int t = 0; t < 5; t++)
            device_row(other, got);
        check_device_ok(dpmf_device_noise_ahead(other, NULL));
        check_device_ok(dpmf_device_noise_save(other, path));
        check_ok(dpmf_noise_load(own, path));
        for (int t = 5; t < STEPS; t++) {
            check_ok(dpmf_noise_next(own, wanted));
            device_row(other, got);
            assert_memory_equal(got, wanted, sizeof got);
        }
        unlink(path);
        dpmf_device_noise_free(other);
        dpmf_noise_free(own);
        dpmf_mechanism_free(m);
    }
}

static void test_seeking_back_and_forth_gives_the_same_rows(void **state) {
    static const int64_t to[] = {7, 6, 11, 0, 3, 12, 2};
    static float wanted[STEPS][COUNT];
    float got[COUNT];
    (void)state;
    (void)the_device();
    for (int which = 0; which < CASES; which++) {
        dpmf_mechanism *m = case_mechanism(which, STEPS);
        const dpmf_noise_options o = options_of(OFFSET, COUNT, NULL, 0);
        dpmf_noise *own = library_stream(m, &o);
        dpmf_device_noise *other = device_stream(m, &o);
        for (int t = 0; t < STEPS; t++)
            check_ok(dpmf_noise_next(own, wanted[t]));
        for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
            check_device_ok(dpmf_device_noise_seek(other, to[i]));
            if (to[i] == STEPS) continue;
            device_row(other, got);
            assert_memory_equal(got, wanted[to[i]], sizeof got);
        }
        dpmf_device_noise_free(other);
        dpmf_noise_free(own);
        dpmf_mechanism_free(m);
    }
}

/* ---- state files ---- */

static void test_a_state_file_goes_from_one_to_the_other(void **state) {
    float row[COUNT];
    char path[40];
    (void)state;
    (void)the_device();
    fresh_path(path, "state");
    dpmf_mechanism *m = case_mechanism(8, STEPS);
    dpmf_noise_options o = options_of(OFFSET, COUNT, path, 0);
    dpmf_device_noise *other = device_stream(m, &o);
    for (int t = 0; t < 3; t++)
        device_row(other, row);
    assert_int_equal(dpmf_device_noise_reserved(other), 3);
    dpmf_device_noise *second = NULL;
    check_device_fails(DPMF_ERROR_IO, "", dpmf_device_noise_create(the_device(), m, DIM, 1, the_key(), &o, &second));
    assert_null(second); /* the file is locked */
    dpmf_device_noise_free(other);
    dpmf_noise *own = library_stream(m, &o);
    assert_int_equal(dpmf_noise_get(own).step, 3);
    assert_int_equal(dpmf_noise_get(own).in_doubt, 0);
    check_ok(dpmf_noise_next(own, row));
    dpmf_noise_free(own);
    other = device_stream(m, &o);
    assert_int_equal(dpmf_device_noise_step(other), 4);
    check_device_fails(DPMF_ERROR_ARGUMENT, "replay", dpmf_device_noise_seek(other, 2));
    check_device_fails(DPMF_ERROR_ARGUMENT, "may not be skipped", dpmf_device_noise_seek(other, 6));
    dpmf_device_noise_free(other);
    dpmf_mechanism_free(m);
    unlink(path);
}

/* The program ends without freeing the stream: as kill -9 would. */
static void test_the_last_row_of_a_program_that_ended_is_in_doubt(void **state) {
    float row[COUNT], again[COUNT];
    char path[40];
    (void)state;
    (void)the_device();
    fresh_path(path, "doubt");
    dpmf_mechanism *m = case_mechanism(8, STEPS);
    dpmf_noise_options o = options_of(OFFSET, COUNT, path, 0);
    dpmf_device_noise *other = device_stream(m, &o);
    for (int t = 0; t < 3; t++)
        device_row(other, row);
    char copy[60], command[160];
    snprintf(copy, sizeof copy, "%s.killed", path);
    snprintf(command, sizeof command, "cp -p %s %s", path, copy); /* the file as it is before anything is freed */
    assert_int_equal(system(command), 0);
    dpmf_device_noise_free(other);
    o.state = copy;
    o.replay = 1;
    other = device_stream(m, &o);
    assert_int_equal(dpmf_device_noise_in_doubt(other), 1);
    assert_int_equal(dpmf_device_noise_step(other), 3);
    check_device_fails(DPMF_ERROR_ARGUMENT, "not known if it arrived",
                       dpmf_device_noise_next(other, DPMF_DEVICE_FLOAT32, again, NULL));
    check_device_ok(dpmf_device_noise_seek(other, 2));
    device_row(other, again);
    assert_memory_equal(again, row, sizeof row);
    dpmf_device_noise_free(other);
    dpmf_mechanism_free(m);
    unlink(copy);
    unlink(path);
}

static void test_a_row_is_given_again_for_the_same_sum_only(void **state) {
    float row[COUNT];
    char path[40];
    uint8_t one[DPMF_DIGEST_SIZE] = {1}, two[DPMF_DIGEST_SIZE] = {2};
    (void)state;
    (void)the_device();
    fresh_path(path, "sums");
    dpmf_mechanism *m = case_mechanism(0, STEPS);
    const dpmf_noise_options o = options_of(OFFSET, COUNT, path, 1);
    dpmf_device_noise *other = device_stream(m, &o);
    check_device_ok(dpmf_device_noise_bind_sum(other, one));
    device_row(other, row);
    check_device_ok(dpmf_device_noise_seek(other, 0));
    check_device_fails(DPMF_ERROR_ARGUMENT, "another sum", dpmf_device_noise_bind_sum(other, two));
    check_device_ok(dpmf_device_noise_bind_sum(other, one));
    device_row(other, row);
    dpmf_device_noise_free(other);
    dpmf_mechanism_free(m);
    unlink(path);
}

static int close_device(void **state) {
    (void)state;
    close_the_device();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_checkpoints_go_to_the_device_and_back),
                                       cmocka_unit_test(test_parts_of_other_shards_are_put_together),
                                       cmocka_unit_test(test_saving_with_a_row_ahead_saves_the_row_before_it),
                                       cmocka_unit_test(test_seeking_back_and_forth_gives_the_same_rows),
                                       cmocka_unit_test(test_a_state_file_goes_from_one_to_the_other),
                                       cmocka_unit_test(test_the_last_row_of_a_program_that_ended_is_in_doubt),
                                       cmocka_unit_test(test_a_row_is_given_again_for_the_same_sum_only)};
    return cmocka_run_group_tests(tests, NULL, close_device);
}
