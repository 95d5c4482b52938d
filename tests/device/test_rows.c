/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a device: the library's bits, by every route, in every type, for any shard, place of resuming and cut into segments. */
#include "device/streams.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 12 rows of 8500 numbers, 10^5, for each route and type; the shard, the cut and the place of resuming take turns. */
static void test_rows_have_the_bits_of_the_library(void **state) {
    static const int64_t offset[] = {0, 37, 64, 1001}, cut[] = {0, 1, 4097, 33}, resume[] = {0, 5, 11, 7};
    (void)state;
    for (int which = 0; which < CASES; which++)
        for (int type = DPMF_DEVICE_FLOAT32; type <= DPMF_DEVICE_FLOAT16; type++) {
            const int turn = (which + type) % 4;
            compare_streams(&(comparison){.which = which,
                                          .type = (dpmf_device_type)type,
                                          .steps = 12,
                                          .dim = 20000,
                                          .offset = offset[turn],
                                          .count = 8533,
                                          .resume = type == 2 ? resume[turn] : 0,
                                          .cut = cut[(turn + which) % 4]});
        }
}

static void test_rows_made_ahead_have_the_same_bits(void **state) {
    (void)state;
    for (int which = 0; which < CASES; which++)
        compare_streams(&(comparison){.which = which,
                                      .type = DPMF_DEVICE_BFLOAT16,
                                      .steps = 12,
                                      .dim = 4000,
                                      .offset = 331,
                                      .count = 1000,
                                      .resume = which % 2 * 4,
                                      .cut = 21,
                                      .ahead = 1});
}

static void test_coordinates_beyond_four_billion_have_theirs(void **state) {
    (void)state;
    for (int which = 0; which < CASES; which += 4)
        compare_streams(&(comparison){.which = which,
                                      .type = DPMF_DEVICE_FLOAT32,
                                      .steps = 12,
                                      .dim = (int64_t)1 << 50,
                                      .offset = ((int64_t)1 << 36) - 77,
                                      .count = 200});
}

/* Every finite number of 16 bits, infinities and NaNs, with noise on them: what they round to by plain arithmetic. */
static void check_every_half(dpmf_device_type type, double clip) {
    enum { ALL = 1 << 16 };
    static float sum[ALL];
    static uint16_t out[ALL];
    dpmf_mechanism *mechanism = case_mechanism(0, 12);
    dpmf_device *device = the_device();
    dpmf_device_noise *other = NULL;
    dpmf_noise *own = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    check_ok(dpmf_key_testing(23, key));
    check_ok(dpmf_noise_create(mechanism, ALL, clip, key, NULL, &own));
    check_device_ok(dpmf_device_noise_create(device, mechanism, ALL, clip, key, NULL, &other));
    for (int i = 0; i < ALL; i++) {
        out[i] = (uint16_t)i;
        sum[i] = (float)number_of_type((uint32_t)i, type);
    }
    check_ok(dpmf_noise_add(own, 1.0, 1, &(dpmf_segment){sum, ALL}));
    check_device_ok(dpmf_device_noise_add(other, 1.0, type, 1, &(dpmf_segment){out, ALL}, NULL));
    for (int i = 0; i < ALL; i++)
        if (isnan(sum[i]))
            assert_true(isnan(number_of_type(out[i], type)));
        else
            assert_int_equal(out[i], round_to_type(sum[i], type));
    dpmf_device_noise_free(other);
    dpmf_noise_free(own);
    dpmf_mechanism_free(mechanism);
}

static void test_halves_are_correctly_rounded_sums(void **state) {
    static const double clip[] = {1e-9, 1e-5, 1e-2, 1, 300, 2e4};
    (void)state;
    for (size_t i = 0; i < sizeof clip / sizeof *clip; i++) {
        check_every_half(DPMF_DEVICE_FLOAT16, clip[i]);
        check_every_half(DPMF_DEVICE_BFLOAT16, clip[i]);
    }
}

static int close_device(void **state) {
    (void)state;
    close_the_device();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_have_the_bits_of_the_library),
                                       cmocka_unit_test(test_rows_made_ahead_have_the_same_bits),
                                       cmocka_unit_test(test_coordinates_beyond_four_billion_have_theirs),
                                       cmocka_unit_test(test_halves_are_correctly_rounded_sums)};
    return cmocka_run_group_tests(tests, NULL, close_device);
}
