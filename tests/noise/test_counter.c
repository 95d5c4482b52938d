/* SPDX-License-Identifier: Apache-2.0 */
/* The counter: sums are those of rows and noise, restarted programs give the same bits, differences are refused. */
#include "support/failing_allocator.h"
#include "support/noise_cases.h"

#include <fcntl.h>
#include <math.h>
#include <sys/wait.h>

enum { COLUMNS = 3 };

static dpmf_mechanism *mechanism;
static double values[CASE_STEPS * COLUMNS], reference[CASE_STEPS * COLUMNS]; /* sums with the noise of one state file */
static char state[128];
static uint8_t begun[1 << 16]; /* that file, before its first row */
static size_t begun_size;

static dpmf_status open_counter(const char *path, double clip, dpmf_counter **out) {
    dpmf_counter_options o = dpmf_counter_options_defaults();
    o.state = path;
    return dpmf_counter_create(mechanism, COLUMNS, clip, case_key, &o, out);
}

/* The state file that `reference` is from, at its beginning: a new one has other noise. */
static void begin_state(void) {
    unlink(state);
    const int file = open(state, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(file >= 0 && write(file, begun, begun_size) == (ssize_t)begun_size);
    close(file);
}

static void refused(dpmf_status status, dpmf_status expected, const char *words) {
    assert_int_equal(status, expected);
    assert_non_null(strstr(dpmf_last_error(), words));
}

static int setup(void **unused) {
    dpmf_counter *counter = NULL;
    if (case_setup(unused) != 0) return -1;
    snprintf(state, sizeof state, "%s", case_path("state"));
    mechanism = case_mechanism("blt", CASE_STEPS, 1.0);
    for (int i = 0; i < CASE_STEPS * COLUMNS; i++)
        values[i] = (i * 37 % 101) - 50 + 0.25 * (i % 3);
    dpmf_counter_options o = dpmf_counter_options_defaults();
    o.state = state;
    o.state_now = 1;
    check_ok(dpmf_counter_create(mechanism, COLUMNS, 2.0, case_key, &o, &counter));
    FILE *file = fopen(state, "rb");
    assert_non_null(file);
    begun_size = fread(begun, 1, sizeof begun, file);
    assert_true(feof(file) && begun_size > 4096);
    fclose(file);
    check_ok(dpmf_counter_add(counter, CASE_STEPS, values, reference));
    dpmf_counter_free(counter);
    return 0;
}

static int teardown(void **unused) {
    dpmf_mechanism_free(mechanism);
    return case_teardown(unused);
}

/* The exact counter's clip norm is larger by the rounding of rows to the grid, which moves its noise by 1e-10. */
static void check_release(dpmf_release release, int kept) {
    dpmf_counter_options wanted = dpmf_counter_options_defaults();
    dpmf_counter_info info;
    dpmf_noise_options o = case_options();
    dpmf_counter *counter = NULL;
    dpmf_noise *noise = NULL;
    double row[COLUMNS], sum[COLUMNS] = {0}, sums[CASE_STEPS * COLUMNS];
    wanted.release = release;
    if (kept) wanted.state = state;
    if (kept && release != DPMF_RELEASE_PLAIN) begin_state();
    if (kept && release == DPMF_RELEASE_PLAIN) unlink(state); /* that file is for exact noise */
    check_ok(dpmf_counter_create(mechanism, COLUMNS, 2.0, case_key, &wanted, &counter));
    check_ok(dpmf_counter_add(counter, CASE_STEPS, values, sums));
    o.precision = DPMF_FLOAT64;
    info = dpmf_counter_get(counter);
    o.grid = info.grid;
    o.exact = o.grid > 0;
    o.salt = info.salt;
    assert_int_equal(o.exact, release != DPMF_RELEASE_PLAIN);
    assert_int_equal(kept && o.exact, memcmp(sums, reference, sizeof sums) == 0); /* exact is the default here */
    check_ok(dpmf_noise_create(mechanism, COLUMNS, 2.0, case_key, &o, &noise));
    for (int t = 0; t < CASE_STEPS; t++) {
        check_ok(dpmf_noise_next(noise, row));
        for (int i = 0; i < COLUMNS; i++) {
            sum[i] += row[i] + values[t * COLUMNS + i];
            assert_true(fabs(sum[i] - sums[t * COLUMNS + i]) < 1e-8);
            if (o.exact) assert_true(fmod(sums[t * COLUMNS + i], o.grid) == 0);
        }
    }
    dpmf_noise_free(noise);
    dpmf_counter_free(counter);
}

static void test_sums_are_rows_and_noise(void **unused) {
    (void)unused;
    for (int kept = 0; kept < 2; kept++) {
        check_release(DPMF_RELEASE_PLAIN, kept);
        check_release(DPMF_RELEASE_AUTO, kept);
        check_release(DPMF_RELEASE_EXACT, kept);
    }
}

static void test_counters_in_turn_give_the_sums_of_one(void **unused) {
    const int64_t cuts[] = {0, 1, 5, 6, CASE_STEPS};
    (void)unused;
    begin_state();
    for (size_t k = 0; k + 1 < sizeof cuts / sizeof *cuts; k++) {
        const int64_t first = cuts[k], rows = cuts[k + 1] - first;
        double sums[CASE_STEPS * COLUMNS], again[CASE_STEPS * COLUMNS];
        dpmf_counter *counter = NULL;
        check_ok(open_counter(state, 2.0, &counter));
        assert_int_equal(dpmf_counter_get(counter).step, first);
        check_ok(dpmf_counter_add(counter, rows, values + first * COLUMNS, sums));
        assert_memory_equal(sums, reference + first * COLUMNS, (size_t)(rows * COLUMNS) * sizeof *sums);
        dpmf_counter_free(counter);
        check_ok(open_counter(state, 2.0, &counter));
        assert_int_equal(dpmf_counter_get(counter).last_rows, rows);
        check_ok(dpmf_counter_last(counter, again));
        assert_memory_equal(again, sums, (size_t)(rows * COLUMNS) * sizeof *sums);
        dpmf_counter_free(counter);
    }
}

/* A note that needs more room makes a new file; nothing is lost by it, and the lock holds. */
static void test_notes_of_any_size_are_kept(void **unused) {
    const int64_t sizes[] = {0, 10, 100000, 7, 3000000, 65536};
    char *note = malloc(3000000);
    dpmf_counter *counter = NULL, *other = NULL;
    (void)unused;
    assert_non_null(note);
    unlink(state);
    for (int k = 0; k < 6; k++) {
        dpmf_int128 grid[COLUMNS] = {{0, 0}};
        int64_t size = -1;
        memset(note, 'a' + k, 3000000);
        check_ok(open_counter(state, 2.0, &counter));
        check_ok(dpmf_counter_prepare(counter, 1, grid, grid));
        check_ok(dpmf_counter_commit(counter, note, sizes[k]));
        refused(open_counter(state, 2.0, &other), DPMF_ERROR_IO, "in use by another program");
        dpmf_counter_free(counter);
        check_ok(open_counter(state, 2.0, &counter));
        const char *held = dpmf_counter_note(counter, &size);
        assert_int_equal(size, sizes[k]);
        if (size > 0) assert_memory_equal(held, note, (size_t)size);
        assert_int_equal(dpmf_counter_get(counter).step, k + 1);
        assert_int_equal(dpmf_counter_get(counter).last_rows, 0);
        dpmf_counter_free(counter);
    }
    free(note);
}

static void test_rows_that_are_not_committed_were_not_counted(void **unused) {
    dpmf_counter *counter = NULL;
    dpmf_int128 grid[COLUMNS] = {{0, 0}};
    double sums[CASE_STEPS * COLUMNS];
    (void)unused;
    begin_state();
    check_ok(open_counter(state, 2.0, &counter));
    check_ok(dpmf_counter_add(counter, 2, values, sums));
    check_ok(dpmf_counter_prepare(counter, 1, grid, grid));
    dpmf_counter_free(counter);
    check_ok(open_counter(state, 2.0, &counter));
    assert_int_equal(dpmf_counter_get(counter).step, 2);
    check_ok(dpmf_counter_add(counter, 3, values + 2 * COLUMNS, sums));
    assert_memory_equal(sums, reference + 2 * COLUMNS, 3 * COLUMNS * sizeof *sums);
    dpmf_counter_free(counter);
}

static void test_the_input_that_was_counted_comes_first(void **unused) {
    dpmf_counter *counter = NULL;
    double sums[COLUMNS];
    (void)unused;
    begin_state();
    check_ok(open_counter(state, 2.0, &counter));
    check_ok(dpmf_counter_input(counter, DPMF_INPUT_COUNT, "1 2 3\n", 6));
    check_ok(dpmf_counter_add(counter, 1, values, sums));
    dpmf_counter_free(counter);
    check_ok(open_counter(state, 2.0, &counter));
    assert_int_equal(dpmf_counter_get(counter).input_size, 6);
    refused(dpmf_counter_add(counter, 1, values, sums), DPMF_ERROR_ARGUMENT, "6 bytes of input");
    refused(dpmf_counter_commit(counter, NULL, 0), DPMF_ERROR_ARGUMENT, "counted first");
    refused(dpmf_counter_input(counter, DPMF_INPUT_COUNT, "4 5 6\n", 6), DPMF_ERROR_ARGUMENT, "counted first");
    refused(dpmf_counter_input(counter, DPMF_INPUT_VERIFY, "1 2 3\n4", 7), DPMF_ERROR_ARGUMENT, "0 to 6");
    refused(dpmf_counter_input(counter, DPMF_INPUT_VERIFY, "1 2 4\n", 6), DPMF_ERROR_ARGUMENT,
            "differ from those that were counted");
    check_ok(dpmf_counter_input(counter, DPMF_INPUT_VERIFY, "1 2", 3));
    check_ok(dpmf_counter_input(counter, DPMF_INPUT_VERIFY, " 3\n", 3));
    check_ok(dpmf_counter_add(counter, 1, values + COLUMNS, sums));
    assert_memory_equal(sums, reference + COLUMNS, sizeof sums);
    dpmf_counter_free(counter);
    check_ok(open_counter(state, 2.0, &counter));
    refused(dpmf_counter_input(counter, (dpmf_input)3, "1", 1), DPMF_ERROR_ARGUMENT, "input 3");
    check_ok(dpmf_counter_input(counter, DPMF_INPUT_RESTART, NULL, 0));
    check_ok(dpmf_counter_add(counter, 1, values + 2 * COLUMNS, sums));
    assert_int_equal(dpmf_counter_get(counter).input_size, 0);
    dpmf_counter_free(counter);
}

static void test_numbers_and_counters_that_do_not_fit_are_refused(void **unused) {
    dpmf_counter *counter = NULL;
    double sums[COLUMNS] = {7, 7, 7};
    const double bad[][COLUMNS] = {{1, NAN, 1}, {INFINITY, 1, 1}, {1, 1, -1e300}};
    (void)unused;
    check_ok(open_counter(NULL, 2.0, &counter));
    for (int i = 0; i < 3; i++) {
        refused(dpmf_counter_add(counter, 1, bad[i], sums), DPMF_ERROR_ARGUMENT, "finite numbers below");
        assert_true(sums[0] == 7 && dpmf_counter_get(counter).step == 0);
    }
    refused(dpmf_counter_add(counter, CASE_STEPS + 1, values, sums), DPMF_ERROR_ARGUMENT, "12 steps");
    refused(dpmf_counter_add(counter, -1, values, sums), DPMF_ERROR_ARGUMENT, "12 steps");
    assert_true(isnan(dpmf_counter_error(counter, CASE_STEPS)) && dpmf_counter_error(counter, 0) > 0);
    dpmf_counter_free(counter);
    refused(dpmf_counter_create(mechanism, 0, 1.0, case_key, NULL, &counter), DPMF_ERROR_ARGUMENT, "columns");
    refused(dpmf_counter_create(NULL, 1, 1.0, case_key, NULL, &counter), DPMF_ERROR_ARGUMENT, "NULL");
    unlink(state);
    check_ok(open_counter(state, 2.0, &counter));
    check_ok(dpmf_counter_add(counter, 1, values, sums));
    dpmf_counter_free(counter);
    refused(open_counter(state, 1.0, &counter), DPMF_ERROR_ARGUMENT, "clip");
}

/* Large numbers are exact: a sum that comes back to 0 leaves what small ones leave. */
static void test_large_numbers_do_not_swallow_the_noise(void **unused) {
    const double large[2 * COLUMNS] = {0x1p80, -0x1p80, 1e20, -0x1p80, 0x1p80, -1e20}, zeros[2 * COLUMNS] = {0};
    double sums[2 * COLUMNS], plain[2 * COLUMNS];
    dpmf_counter *counter = NULL;
    (void)unused;
    check_ok(open_counter(NULL, 2.0, &counter));
    check_ok(dpmf_counter_add(counter, 2, large, sums));
    dpmf_counter_free(counter);
    check_ok(open_counter(NULL, 2.0, &counter));
    check_ok(dpmf_counter_add(counter, 2, zeros, plain));
    dpmf_counter_free(counter);
    assert_memory_equal(sums + COLUMNS, plain + COLUMNS, COLUMNS * sizeof *sums);
}

static void test_a_clipped_row_has_at_most_the_norm(void **unused) {
    dpmf_counter_options o = dpmf_counter_options_defaults();
    const double rows[][COLUMNS] = {{3, 4, 12}, {1e20, 1e20, -1e20}, {1, 1, 1}, {0, 0, 2}};
    (void)unused;
    o.clip_rows = 1;
    for (int k = 0; k < 4; k++) {
        double sums[COLUMNS], noise[COLUMNS], zero[COLUMNS] = {0}, norm = 0;
        dpmf_counter *counter = NULL;
        check_ok(open_counter(NULL, 2.0, &counter));
        check_ok(dpmf_counter_add(counter, 1, zero, noise));
        dpmf_counter_free(counter);
        check_ok(dpmf_counter_create(mechanism, COLUMNS, 2.0, case_key, &o, &counter));
        check_ok(dpmf_counter_add(counter, 1, rows[k], sums));
        dpmf_counter_free(counter);
        for (int i = 0; i < COLUMNS; i++)
            norm += (sums[i] - noise[i]) * (sums[i] - noise[i]);
        assert_true(sqrt(norm) <= 2 && sqrt(norm) > (k == 2 ? 1.73 : 1.999999));
    }
}

static void test_a_child_of_a_fork_counts_nothing(void **unused) {
    dpmf_counter *counter = NULL;
    double sums[COLUMNS];
    int how = 0;
    (void)unused;
    begin_state();
    check_ok(open_counter(state, 2.0, &counter));
    check_ok(dpmf_counter_add(counter, 1, values, sums));
    const pid_t child = fork();
    if (child == 0) {
        const dpmf_status status = dpmf_counter_add(counter, 1, values, sums);
        dpmf_counter_free(counter);
        _exit(status == DPMF_ERROR_UNSUPPORTED ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    check_ok(dpmf_counter_add(counter, 1, values + COLUMNS, sums));
    assert_memory_equal(sums, reference + COLUMNS, sizeof sums);
    dpmf_counter_free(counter);
}

static dpmf_status create_and_count(void) {
    dpmf_counter *counter = NULL;
    double sums[COLUMNS];
    dpmf_status status = open_counter(state, 2.0, &counter);
    if (status == DPMF_OK) status = dpmf_counter_add(counter, 1, values, sums);
    dpmf_counter_free(counter);
    return status;
}

static void test_any_allocation_of_a_counter_may_fail(void **unused) {
    (void)unused;
    unlink(state);
    check_ok(create_and_count()); /* what OpenSSL makes once and keeps is made */
    FAIL_EACH((unlink(state), create_and_count()));
    FAIL_EACH((unlink(state), create_and_count()));
}

static int stop_at_once(void *context, const char *what, double done) {
    (void)done;
    *(int *)context += strcmp(what, "counting rows") == 0;
    return strcmp(what, "counting rows") == 0;
}

/* Nothing of a cancelled batch is counted: the counter has ended, and the next one continues from the file. */
static void test_a_cancelled_batch_was_not_counted(void **unused) {
    dpmf_counter_options o = dpmf_counter_options_defaults();
    dpmf_counter *counter = NULL;
    double sums[CASE_STEPS * COLUMNS] = {0};
    int asked = 0;
    (void)unused;
    _Static_assert(CASE_STEPS > 9, "long enough to be asked");
    begin_state();
    o.state = state;
    o.run.progress = stop_at_once;
    o.run.context = &asked;
    check_ok(dpmf_counter_create(mechanism, COLUMNS, 2.0, case_key, &o, &counter));
    check_ok(dpmf_counter_add(counter, 1, values, sums));
    refused(dpmf_counter_add(counter, CASE_STEPS - 1, values + COLUMNS, sums + COLUMNS), DPMF_ERROR_CANCELLED,
            "counting rows");
    assert_int_equal(asked, 1);
    assert_true(sums[COLUMNS] == 0);
    refused(dpmf_counter_add(counter, 1, values, sums), DPMF_ERROR_IO, "has ended");
    dpmf_counter_free(counter);
    check_ok(open_counter(state, 2.0, &counter));
    assert_int_equal(dpmf_counter_get(counter).step, 1);
    check_ok(dpmf_counter_add(counter, CASE_STEPS - 1, values + COLUMNS, sums + COLUMNS));
    assert_memory_equal(sums, reference, sizeof sums);
    dpmf_counter_free(counter);
    unlink(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_rows_and_noise),
        cmocka_unit_test(test_counters_in_turn_give_the_sums_of_one),
        cmocka_unit_test(test_notes_of_any_size_are_kept),
        cmocka_unit_test(test_rows_that_are_not_committed_were_not_counted),
        cmocka_unit_test(test_the_input_that_was_counted_comes_first),
        cmocka_unit_test(test_numbers_and_counters_that_do_not_fit_are_refused),
        cmocka_unit_test(test_large_numbers_do_not_swallow_the_noise),
        cmocka_unit_test(test_a_clipped_row_has_at_most_the_norm),
        cmocka_unit_test(test_a_child_of_a_fork_counts_nothing),
        cmocka_unit_test(test_any_allocation_of_a_counter_may_fail),
        cmocka_unit_test(test_a_cancelled_batch_was_not_counted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
