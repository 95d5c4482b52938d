/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in and out, and SHA-256. */
#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/failing_allocator.h"

static char directory[] = "/tmp/dpmf-test-file-XXXXXX";
static char path[200], other[200];

static int count_entries(void) {
    int count = -2; /* "." and ".." */
    DIR *list = opendir(directory);
    assert_non_null(list);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count;
}

static int set_up(void **state) {
    (void)state;
    memcpy(directory + strlen(directory) - 6, "XXXXXX", 6);
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(directory); /* fails if anything was left */
}

static dpmf_status write_text(const char *where, const char *text) {
    const base_part part = {text, strlen(text)};
    return base_file_write(where, "test file", 1, &part);
}

static void expect_content(const char *where, const void *expected, size_t expected_size) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(base_file_read(where, "test file", &bytes, &size), DPMF_OK);
    assert_int_equal(size, expected_size);
    assert_memory_equal(bytes, expected, expected_size);
    assert_int_equal((uintptr_t)bytes % 64, 0);
    base_free(bytes);
}

static void expect_unreadable(const char *where, const char *reason) {
    uint8_t *bytes = NULL;
    size_t size = 77;
    assert_int_equal(base_file_read(where, "test file", &bytes, &size), DPMF_ERROR_IO);
    assert_true(bytes == NULL && size == 77);
    assert_non_null(strstr(dpmf_last_error(), where));
    assert_non_null(strstr(dpmf_last_error(), "test file"));
    assert_non_null(strstr(dpmf_last_error(), reason));
}

static void test_parts_come_back_as_one(void **state) {
    const base_part parts[] = {{"abc", 3}, {NULL, 0}, {"d\0e", 3}};
    (void)state;
    assert_int_equal(base_file_write(path, "test file", 3, parts), DPMF_OK);
    expect_content(path, "abcd\0e", 6);
    assert_int_equal(base_file_write(path, "test file", 0, parts), DPMF_OK); /* replaced by an empty one */
    expect_content(path, "", 0);
    assert_int_equal(count_entries(), 1);
}

static void test_a_large_file_comes_back(void **state) {
    enum { SIZE = 5000011 };
    uint8_t *bytes = malloc(SIZE);
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i * i >> 7);
    const base_part parts[] = {{bytes, 4097}, {bytes + 4097, SIZE - 4097}};
    assert_int_equal(base_file_write(path, "test file", 2, parts), DPMF_OK);
    expect_content(path, bytes, SIZE);
    free(bytes);
}

static void test_a_name_without_directory_is_here(void **state) {
    char before[4096];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    dpmf_status status = write_text("file", "x");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, DPMF_OK);
    expect_content(path, "x", 1);
}

static void test_the_mode_follows_the_umask(void **state) {
    struct stat info;
    mode_t before = umask(027);
    (void)state;
    dpmf_status status = write_text(path, "x");
    umask(before);
    assert_int_equal(status, DPMF_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

static void test_what_is_not_a_regular_file_is_not_read(void **state) {
    (void)state;
    expect_unreadable(path, "No such file or directory");
    expect_unreadable(directory, "it is a directory");
    expect_unreadable("/dev/null", "it is a device");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_unreadable(path, "it is a pipe"); /* and does not wait for a writer */
}

static void test_what_is_not_a_regular_file_is_not_replaced(void **state) {
    struct stat info;
    (void)state;
    assert_int_equal(write_text(directory, "x"), DPMF_ERROR_IO);
    assert_non_null(strstr(dpmf_last_error(), "it is a directory"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(write_text(path, "x"), DPMF_ERROR_IO);
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(count_entries(), 1);
}

static void test_a_link_is_replaced_and_not_followed(void **state) {
    struct stat info;
    (void)state;
    assert_int_equal(write_text(other, "old"), DPMF_OK);
    assert_int_equal(symlink(other, path), 0);
    expect_content(path, "old", 3);
    assert_int_equal(write_text(path, "new"), DPMF_OK);
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISREG(info.st_mode));
    expect_content(path, "new", 3);
    expect_content(other, "old", 3);
}

static void test_a_missing_directory_is_said(void **state) {
    char missing[300];
    (void)state;
    snprintf(missing, sizeof missing, "%s/no/such", directory);
    assert_int_equal(write_text(missing, "x"), DPMF_ERROR_IO);
    assert_non_null(strstr(dpmf_last_error(), missing));
    assert_non_null(strstr(dpmf_last_error(), "No such file or directory"));
    assert_int_equal(write_text("", "x"), DPMF_ERROR_IO);
}

/* The disk is full in the middle of a write: the old file stays, and no temporary one. */
static void test_a_failed_write_leaves_the_old_file(void **state) {
    enum { LIMIT = 10000 };
    static char large[3 * LIMIT];
    const base_part parts[] = {{large, LIMIT - 1}, {large, sizeof large}};
    struct rlimit before, small;
    (void)state;
    assert_int_equal(write_text(path, "old"), DPMF_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = LIMIT;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    dpmf_status status = base_file_write(path, "test file", 2, parts);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, DPMF_ERROR_IO);
    assert_non_null(strstr(dpmf_last_error(), "File too large"));
    assert_int_equal(count_entries(), 1);
    expect_content(path, "old", 3);
}

/* Files of /proc have more in them than their size of 0 says: the same as a file that grows while it is read. */
static void test_a_file_that_grows_is_refused(void **state) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)state;
    if (access("/proc/self/status", R_OK) != 0) skip();
    assert_int_equal(base_file_read("/proc/self/status", "test file", &bytes, &size), DPMF_ERROR_IO);
    assert_non_null(strstr(dpmf_last_error(), "it grew while it was read"));
    assert_null(bytes);
}

static void test_the_memory_limit_holds_for_a_huge_file(void **state) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)state;
    assert_int_equal(write_text(path, ""), DPMF_OK);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* a sparse file of a terabyte */
    dpmf_memory_set_limit(1 << 30);
    dpmf_status status = base_file_read(path, "test file", &bytes, &size);
    dpmf_memory_set_limit(0);
    assert_int_equal(status, DPMF_ERROR_MEMORY);
    assert_null(bytes);
}

static void test_messages_about_files_are_one_line(void **state) {
    char odd[3000];
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)state;
    memset(odd, 'x', sizeof odd);
    memcpy(odd, "/tmp/\n\x1b", 7);
    memcpy(odd + sizeof odd - 8, "\nend.st", 8);
    assert_int_equal(base_file_read(odd, "test file", &bytes, &size), DPMF_ERROR_IO);
    assert_null(strchr(dpmf_last_error(), '\n'));
    assert_non_null(strstr(dpmf_last_error(), "?end.st': "));
}

static void test_any_allocation_for_a_file_may_fail(void **state) {
    const base_part part = {"old", 3};
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)state;
    NEEDS_NO_MEMORY(base_file_write(path, "test file", 1, &part));
    assert_int_equal(count_entries(), 1);
    FAIL_EACH(base_file_read(path, "test file", &bytes, &size));
    base_free(bytes);
}

/* FIPS 180-4, the examples of one block, of two, and of a million letters; then any cut of the text in parts. */
static void test_sha256_is_the_standard_one(void **state) {
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static char million[1000000];
    char digest[65];
    (void)state;
    assert_int_equal(base_sha256(0, NULL, digest), DPMF_OK);
    assert_string_equal(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    const base_part abc = {"abc", 3};
    assert_int_equal(base_sha256(1, &abc, digest), DPMF_OK);
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t cut = 0; cut < sizeof two_blocks; cut++) {
        const base_part parts[] = {{two_blocks, cut}, {two_blocks + cut, sizeof two_blocks - 1 - cut}};
        assert_int_equal(base_sha256(2, parts, digest), DPMF_OK);
        assert_string_equal(digest, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
    memset(million, 'a', sizeof million);
    const base_part all = {million, sizeof million};
    assert_int_equal(base_sha256(1, &all, digest), DPMF_OK);
    assert_string_equal(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parts_come_back_as_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_large_file_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_name_without_directory_is_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_mode_follows_the_umask, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_not_a_regular_file_is_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_not_a_regular_file_is_not_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_link_is_replaced_and_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_missing_directory_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failed_write_leaves_the_old_file, set_up, tear_down),
        cmocka_unit_test(test_a_file_that_grows_is_refused),
        cmocka_unit_test_setup_teardown(test_the_memory_limit_holds_for_a_huge_file, set_up, tear_down),
        cmocka_unit_test(test_messages_about_files_are_one_line),
        cmocka_unit_test_setup_teardown(test_any_allocation_for_a_file_may_fail, set_up, tear_down),
        cmocka_unit_test(test_sha256_is_the_standard_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
