/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: new, for tests, and in files that only their owner may read. */
#include "support/noise_cases.h"

#include <fcntl.h>

static void test_new_keys_differ_and_a_wiped_one_is_zero(void **unused) {
    uint8_t one[DPMF_KEY_SIZE] = {0}, two[DPMF_KEY_SIZE] = {0}, zero[DPMF_KEY_SIZE] = {0};
    (void)unused;
    check_ok(dpmf_key_create(one));
    check_ok(dpmf_key_create(two));
    assert_memory_not_equal(one, two, sizeof one);
    assert_memory_not_equal(one, zero, sizeof one);
    check_ok(dpmf_key_testing(7, one));
    assert_memory_equal(one, case_key, sizeof one);
    check_ok(dpmf_key_testing(8, two));
    assert_memory_not_equal(one, two, sizeof one);
    dpmf_key_wipe(one);
    assert_memory_equal(one, zero, sizeof one);
    dpmf_key_wipe(NULL);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_key_create(NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_key_testing(1, NULL));
}

static void write_file(const char *path, const void *bytes, size_t size, mode_t mode) {
    unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
}

static void test_a_key_file_has_32_bytes_for_its_owner_alone(void **unused) {
    char path[128];
    uint8_t key[DPMF_KEY_SIZE], again[DPMF_KEY_SIZE], bytes[40] = {1, 2, 3};
    struct stat info;
    (void)unused;
    snprintf(path, sizeof path, "%s", case_path("key"));
    memset(key, 9, sizeof key);
    memcpy(again, key, sizeof again);
    check_fails(DPMF_ERROR_IO, dpmf_key_load(path, 0, key));
    assert_int_equal(access(path, F_OK), -1);
    assert_memory_equal(key, again, sizeof key);
    check_ok(dpmf_key_load(path, 1, key));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(info.st_size, DPMF_KEY_SIZE);
    check_ok(dpmf_key_load(path, 1, again));
    assert_memory_equal(key, again, sizeof key);
    for (int size = 0; size <= 40; size++) {
        if (size == DPMF_KEY_SIZE) continue;
        write_file(path, bytes, (size_t)size, 0600);
        check_fails(DPMF_ERROR_FORMAT, dpmf_key_load(path, 1, again));
    }
    for (int byte = 0; byte < 256;
         byte += 51) { /* one byte repeated is no secret: a disk or a script that wrote nothing */
        uint8_t same[DPMF_KEY_SIZE];
        memset(same, byte, sizeof same);
        write_file(path, same, sizeof same, 0600);
        check_fails(DPMF_ERROR_FORMAT, dpmf_key_load(path, 1, again));
        check_message("one byte, 32 times");
        assert_memory_equal(key, again, sizeof key);
    }
    for (int bit = 0; bit < 9; bit++) {
        write_file(path, bytes, DPMF_KEY_SIZE, (mode_t)(0400 | 1 << bit));
        if (bit < 6)
            check_fails(DPMF_ERROR_IO, dpmf_key_load(path, 1, again));
        else
            check_ok(dpmf_key_load(path, 1, key));
    }
    assert_memory_equal(key, bytes, sizeof key);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_fails(DPMF_ERROR_IO, dpmf_key_load(path, 1, again));
    check_fails(DPMF_ERROR_IO, dpmf_key_load(case_directory, 1, again));
    check_fails(DPMF_ERROR_IO, dpmf_key_load(case_path("none/key"), 1, again));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_key_load("", 1, again));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_key_load(NULL, 1, again));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_key_load(path, 1, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_keys_differ_and_a_wiped_one_is_zero),
        cmocka_unit_test(test_a_key_file_has_32_bytes_for_its_owner_alone),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
