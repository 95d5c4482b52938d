/* SPDX-License-Identifier: Apache-2.0 */
/* 10^7 numbers for each route, type, shard and place of resuming; a thousand streams made and freed. */
#include "device/streams.h"

static void test_ten_million_numbers_have_the_bits_of_the_library(void **state) {
    enum { STEPS = 24, COUNT = 420011 };
    static const int64_t offset[] = {0, 12345677}, resume[] = {0, 13};
    (void)state;
    for (int which = 0; which < CASES; which++) {
        print_message("%s\n", case_names[which]);
        for (int type = DPMF_DEVICE_FLOAT32; type <= DPMF_DEVICE_FLOAT16; type++)
            for (int shard = 0; shard < 2; shard++)
                for (int k = 0; k < 2; k++)
                    compare_streams(&(comparison){.which = which,
                                                  .type = (dpmf_device_type)type,
                                                  .steps = STEPS,
                                                  .dim = 20000000,
                                                  .offset = offset[shard],
                                                  .count = COUNT * (k == 0 ? 1 : 2),
                                                  .resume = resume[k],
                                                  .cut = shard * 100003});
    }
}

static void test_a_thousand_streams_come_and_go(void **state) {
    dpmf_device *device = the_device();
    dpmf_mechanism *mechanism = case_mechanism(8, 12);
    uint8_t key[DPMF_KEY_SIZE];
    float row[100];
    (void)state;
    check_ok(dpmf_key_testing(3, key));
    for (int i = 0; i < 1000; i++) {
        dpmf_device_noise *noise = NULL;
        check_device_ok(dpmf_device_noise_create(device, mechanism, 100, 1, key, NULL, &noise));
        check_device_ok(dpmf_device_noise_next(noise, DPMF_DEVICE_FLOAT32, row, NULL));
        dpmf_device_noise_free(noise);
    }
    dpmf_mechanism_free(mechanism);
}

static void test_a_device_is_opened_and_closed_often(void **state) {
    (void)state;
    (void)the_device(); /* or skip */
    for (int i = 0; i < 50; i++) {
        dpmf_device *device = NULL;
        check_device_ok(dpmf_device_open("opencl:0", NULL, &device));
        dpmf_device_close(device);
    }
}

static int close_device(void **state) {
    (void)state;
    close_the_device();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ten_million_numbers_have_the_bits_of_the_library),
                                       cmocka_unit_test(test_a_thousand_streams_come_and_go),
                                       cmocka_unit_test(test_a_device_is_opened_and_closed_often)};
    return cmocka_run_group_tests(tests, NULL, close_device);
}
