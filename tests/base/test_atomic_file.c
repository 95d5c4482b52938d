/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear whole or not at all. The calls that change a disk are replaced here by ones that can fail, or end the
 * process before they have done anything, so every moment of the protocol is a moment of a crash once.
 */
#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/dpmf-test-atomic-XXXXXX";
static char path[200];
static bool names_first; /* as on a system without /proc */
static int calls, crash_at, fail_at;

static bool goes_on(void) {
    const int call = calls++;
    if (call == crash_at) _exit(9);
    if (call == fail_at) errno = EIO;
    return call != fail_at;
}

int access(const char *name, int how) {
    return names_first ? -1 : (int)syscall(SYS_faccessat, AT_FDCWD, name, how);
}

int fsync(int file) {
    return goes_on() ? (int)syscall(SYS_fsync, file) : -1;
}

int linkat(int from_place, const char *from, int to_place, const char *to, int flags) {
    return goes_on() ? (int)syscall(SYS_linkat, from_place, from, to_place, to, flags) : -1;
}

int rename(const char *from, const char *to) {
    return goes_on() ? (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) : -1;
}

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
    crash_at = fail_at = -1;
    names_first = false;
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(path, sizeof path, "%s/file", directory);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    return rmdir(directory); /* fails if anything was left */
}

static bool write_text(const char *text, bool replace, atomic_file *a) {
    calls = 0;
    const bool ok =
        atomic_file_open(a, path, true) && atomic_file_write(a, text, strlen(text)) && atomic_file_commit(a, replace);
    atomic_file_close(a);
    return ok;
}

static void expect_text(const char *expected) {
    char text[100] = "";
    size_t got = 0;
    const int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    assert_int_equal(file_get(file, 0, text, sizeof text - 1, &got), 0);
    close(file);
    assert_string_equal(text, expected);
}

static void test_an_existing_file_stays_unless_it_may_be_replaced(void **state) {
    atomic_file a;
    (void)state;
    for (int i = 0; i < 2; i++) {
        names_first = i == 1;
        unlink(path);
        assert_true(write_text("first", false, &a));
        assert_false(write_text("second", false, &a));
        assert_true(a.existed);
        assert_string_equal(a.failed, "make");
        assert_string_equal(a.reason, "File exists");
        expect_text("first");
        assert_true(write_text("third", true, &a));
        expect_text("third");
        assert_int_equal(count_entries(), 1);
    }
}

static void test_a_secret_is_for_its_owner_whatever_the_umask(void **state) {
    struct stat info;
    atomic_file a;
    (void)state;
    for (int i = 0; i < 2; i++) {
        names_first = i == 1;
        const mode_t before = umask(0);
        const bool ok = write_text("x", true, &a);
        umask(before);
        assert_true(ok);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
    }
}

static void test_the_file_can_be_kept_open_and_is_locked(void **state) {
    atomic_file a;
    (void)state;
    assert_true(atomic_file_open(&a, path, true));
    assert_int_equal(a.lock_error, 0);
    assert_true(atomic_file_commit(&a, false));
    const int kept = a.file, other = open(path, O_RDWR);
    a.file = -1;
    atomic_file_close(&a);
    assert_int_equal(file_put(kept, 3, "end", 3), 0);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
    close(kept);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    close(other);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 6);
}

/* Of two programs that write at once neither removes the other's file; what a dead one has left goes. */
static void test_only_what_a_dead_program_left_is_removed(void **state) {
    char left[300];
    atomic_file first, second;
    (void)state;
    names_first = true;
    snprintf(left, sizeof left, "%s/.file.dpmf-0123.tmp", directory);
    close(open(left, O_WRONLY | O_CREAT, 0600));
    assert_true(atomic_file_open(&first, path, true));
    assert_int_equal(count_entries(), 1);
    assert_true(write_text("second", true, &second));
    assert_true(atomic_file_write(&first, "first", 5));
    assert_true(atomic_file_commit(&first, true));
    atomic_file_close(&first);
    expect_text("first");
    assert_int_equal(count_entries(), 1);
}

/* Every call fails once: the old file is there, or after the last rename the new one, and nothing else. */
static void test_a_failure_at_any_moment_leaves_a_whole_file(void **state) {
    atomic_file a;
    (void)state;
    for (int i = 0; i < 2; i++) {
        names_first = i == 1;
        bool ok = false;
        int moments = 0;
        for (fail_at = 0; !ok; fail_at++) {
            const int wanted = fail_at;
            fail_at = -1;
            assert_true(write_text("old", true, &a));
            fail_at = wanted;
            ok = write_text("new", true, &a);
            moments++;
            if (!ok) assert_string_equal(a.reason, "Input/output error");
            const bool renamed = ok || strcmp(a.failed, "sync the directory of") == 0;
            expect_text(renamed ? "new" : "old");
            assert_int_equal(count_entries(), 1);
        }
        fail_at = -1;
        assert_int_equal(moments, names_first ? 4 : 5); /* fsync, link, rename, fsync; and none */
    }
}

/* A process ends before each call: the path has the old file or the new one, and the next writer leaves no more than it. */
static void test_a_crash_at_any_moment_leaves_a_whole_file(void **state) {
    atomic_file a;
    char text[4] = "";
    size_t got = 0;
    (void)state;
    for (int i = 0; i < 2; i++) {
        names_first = i == 1;
        int status = 9 << 8;
        for (int at = 0; WEXITSTATUS(status) == 9; at++) {
            assert_true(write_text("old", true, &a));
            const pid_t child = fork();
            if (child == 0) {
                crash_at = at;
                _exit(write_text("new", true, &a) ? 0 : 1);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            const int file = open(path, O_RDONLY);
            assert_true(file >= 0);
            assert_int_equal(file_get(file, 0, text, 3, &got), 0);
            close(file);
            assert_int_equal(got, 3);
            assert_true(strcmp(text, "old") == 0 || strcmp(text, "new") == 0);
        }
        assert_int_equal(WEXITSTATUS(status), 0);
        expect_text("new");
        assert_true(write_text("next", true, &a));
        assert_int_equal(count_entries(), 1);
    }
}

static void test_what_cannot_be_written_is_named(void **state) {
    char long_path[PATH_MAX + 100];
    atomic_file a;
    (void)state;
    assert_false(atomic_file_open(&a, directory, true));
    assert_string_equal(a.reason, "it is a directory, not a regular file");
    assert_false(atomic_file_open(&a, "/dev/null", true));
    assert_string_equal(a.reason, "it is a device, not a regular file");
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    for (size_t i = 100; i < sizeof long_path - 1; i += 100)
        long_path[i] = '/';
    assert_false(atomic_file_open(&a, long_path, true));
    assert_string_equal(a.failed, "write");
    assert_string_equal(a.reason, "File name too long");
    atomic_file_close(&a); /* harmless after a failure */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_existing_file_stays_unless_it_may_be_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_secret_is_for_its_owner_whatever_the_umask, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_file_can_be_kept_open_and_is_locked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_what_a_dead_program_left_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failure_at_any_moment_leaves_a_whole_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_crash_at_any_moment_leaves_a_whole_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
