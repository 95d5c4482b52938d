/* SPDX-License-Identifier: Apache-2.0 */
/* The lazy stream: what it refuses, the same bits for any number of threads, and one history for each state file. */
#include "support/failing_allocator.h"
#include "support/noise_cases.h"

#include <math.h>
#include <sys/wait.h>

enum { ROWS = 700, WIDTH = 70, BYTES = ROWS * WIDTH * (int)sizeof(float) };

static dpmf_mechanism *mechanism;

static int setup(void **unused) {
    if (case_setup(unused) != 0) return -1;
    mechanism = case_mechanism("blt", CASE_STEPS, 1.0);
    return 0;
}

static int teardown(void **unused) {
    dpmf_mechanism_free(mechanism);
    return case_teardown(unused);
}

static dpmf_noise_options with_state(const char *name, int replay) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    o.run.threads = 1;
    o.replay = replay;
    o.state = name == NULL ? NULL : case_path(name);
    return o;
}

static dpmf_lazy *open_lazy(dpmf_noise_options o) {
    dpmf_lazy *lazy = NULL;
    check_ok(dpmf_lazy_create(mechanism, ROWS, WIDTH, 2.0, case_key, &o, &lazy));
    return lazy;
}

/* Steps first .. last-1: rows that depend on the step and the history's number are touched, and gradients added to them. */
static void run_steps(dpmf_lazy *lazy, int first, int last, int history, float *table) {
    for (int t = first; t < last; t++) {
        const int64_t row[4] = {(t * 31 + 5) % ROWS, (t * 17 + history) % ROWS, (t * 31 + 5) % ROWS, 3};
        check_ok(dpmf_lazy_touch(lazy, 4, row, table));
        for (int i = 0; i < 4; i++)
            table[row[i] * WIDTH] += 0.25F;
        check_ok(dpmf_lazy_next(lazy, -0.5));
    }
}

static float *new_table(void) {
    float *table = calloc(1, BYTES);
    assert_non_null(table);
    return table;
}

static void test_any_number_of_threads_gives_the_same_bits(void **unused) {
    (void)unused;
    float *one = new_table(), *four = new_table();
    for (int k = 0; k < 2; k++) {
        dpmf_noise_options o = with_state(NULL, 0);
        o.run.threads = k == 0 ? 1 : 4;
        dpmf_lazy *lazy = open_lazy(o);
        run_steps(lazy, 0, CASE_STEPS, 1, k == 0 ? one : four);
        check_ok(dpmf_lazy_flush(lazy, k == 0 ? one : four));
        dpmf_lazy_free(lazy);
    }
    assert_memory_equal(one, four, BYTES);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(isfinite(one[i]) && one[i] != 0);
    free(one);
    free(four);
}

static void test_a_row_that_has_its_noise_gets_none(void **unused) {
    const int64_t row[1] = {5};
    (void)unused;
    float *table = new_table();
    dpmf_lazy *lazy = open_lazy(with_state(NULL, 0));
    check_ok(dpmf_lazy_touch(lazy, 1, row, table));
    check_ok(dpmf_lazy_flush(lazy, table)); /* no step is over */
    assert_true(table[5 * WIDTH] == 0);
    check_ok(dpmf_lazy_next(lazy, 1));
    check_ok(dpmf_lazy_touch(lazy, 1, row, table));
    const float held = table[5 * WIDTH];
    assert_true(held != 0 && table[4 * WIDTH] == 0);
    check_ok(dpmf_lazy_touch(lazy, 1, row, table));
    check_ok(dpmf_lazy_flush(lazy, table));
    assert_true(table[5 * WIDTH] == held && table[4 * WIDTH] != 0);
    const dpmf_lazy_info info = dpmf_lazy_get(lazy);
    assert_true(info.step == 1 && info.flushed == 1 && info.flushes == 1 && info.buffers == 2);
    dpmf_lazy_free(lazy);
    free(table);
}

static void test_no_step_beyond_the_mechanism_is_accepted(void **unused) {
    (void)unused;
    float *table = new_table();
    dpmf_lazy *lazy = open_lazy(with_state(NULL, 0));
    run_steps(lazy, 0, CASE_STEPS, 1, table);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_next(lazy, 1));
    check_message("the mechanism has 12 steps");
    check_ok(dpmf_lazy_flush(lazy, table));
    dpmf_lazy_free(lazy);
    free(table);
}

static void test_bad_arguments_are_refused_with_the_accepted_range(void **unused) {
    const int64_t bad[3] = {0, ROWS, 1};
    (void)unused;
    float *table = new_table();
    dpmf_noise_options o = with_state(NULL, 0);
    dpmf_lazy *lazy = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_create(NULL, ROWS, WIDTH, 2.0, case_key, &o, &lazy));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_create(mechanism, 0, WIDTH, 2.0, case_key, &o, &lazy));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_create(mechanism, (int64_t)1 << 40, 2, 2.0, case_key, &o, &lazy));
    check_message("width = 2, accepted 1 to 1");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_create(mechanism, ROWS, WIDTH, -1, case_key, &o, &lazy));
    o.exact = 1;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_lazy_create(mechanism, ROWS, WIDTH, 2.0, case_key, &o, &lazy));
    check_message("no exact release");
    o = with_state(NULL, 0);
    o.count = 7;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_lazy_create(mechanism, ROWS, WIDTH, 2.0, case_key, &o, &lazy));
    o = with_state(NULL, 0);
    o.prefetch = 1;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_lazy_create(mechanism, ROWS, WIDTH, 2.0, case_key, &o, &lazy));
    assert_null(lazy);
    lazy = open_lazy(with_state(NULL, 0));
    check_ok(dpmf_lazy_next(lazy, 1));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_touch(lazy, 3, bad, table));
    check_message("row 700 of the table, accepted 0 to 699");
    assert_true(table[0] == 0); /* nothing is half done */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_touch(lazy, 1, NULL, table));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_flush(lazy, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_next(lazy, NAN));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_next(lazy, 1e300));
    check_ok(dpmf_lazy_next(lazy, 0));
    dpmf_lazy_free(lazy);
    dpmf_lazy_free(NULL);
    free(table);
}

static void test_strategies_that_use_seeds_again_or_keep_many_rows_are_refused(void **unused) {
    static const char *const FAMILIES[] = {"toeplitz", "fft"};
    (void)unused;
    for (int i = 0; i < 2; i++) {
        dpmf_mechanism *m = case_mechanism(FAMILIES[i], 40, 1.0);
        dpmf_lazy *lazy = NULL;
        check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_lazy_create(m, ROWS, WIDTH, 2.0, case_key, NULL, &lazy));
        check_message(i == 0 ? "keeps 39 rows, accepted: up to 16" : "uses seeds of other steps again");
        dpmf_mechanism_free(m);
    }
}

/* Two streams with one key have unrelated noise: one of rows, and lazy ones with rows of different widths. */
static void test_the_noise_of_a_table_is_that_of_no_other_stream(void **unused) {
    dpmf_mechanism *m = case_mechanism("identity", CASE_STEPS, 1.0);
    dpmf_noise_options o = with_state(NULL, 0);
    float row[128], narrow[128] = {0}, wide[128] = {0};
    dpmf_noise *noise = NULL;
    dpmf_lazy *lazy = NULL;
    (void)unused;
    check_ok(dpmf_noise_create(m, 128, 2.0, case_key, &o, &noise));
    check_ok(dpmf_noise_next(noise, row));
    dpmf_noise_free(noise);
    for (int k = 0; k < 2; k++) {
        check_ok(dpmf_lazy_create(m, k == 0 ? 2 : 1, k == 0 ? 64 : 128, 2.0, case_key, &o, &lazy));
        check_ok(dpmf_lazy_next(lazy, 1));
        check_ok(dpmf_lazy_flush(lazy, k == 0 ? narrow : wide));
        dpmf_lazy_free(lazy);
    }
    for (int i = 0; i < 128; i++)
        assert_true(narrow[i] != 0 && narrow[i] != wide[i] && row[i] != wide[i] && row[i] != narrow[i]);
    dpmf_mechanism_free(m);
}

/* ---- checkpoints and the state file ---- */

static void test_a_checkpoint_without_a_flush_is_refused(void **unused) {
    (void)unused;
    float *table = new_table();
    dpmf_lazy *lazy = open_lazy(with_state(NULL, 0));
    run_steps(lazy, 0, 3, 1, table);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_save(lazy, case_path("unflushed")));
    check_message("the noise of 3 steps has not been flushed");
    assert_int_equal(access(case_path("unflushed"), F_OK), -1);
    check_ok(dpmf_lazy_flush(lazy, table));
    check_ok(dpmf_lazy_save(lazy, case_path("unflushed")));
    dpmf_lazy_free(lazy);
    free(table);
}

/* Flushes at steps 4 (with a checkpoint), 7 and 12. `table` after the last one; `held` is that of the checkpoint. */
static void whole_run(const char *state, int history, float *table, float *held) {
    dpmf_lazy *lazy = open_lazy(with_state(state, 0));
    run_steps(lazy, 0, 4, 1, table);
    check_ok(dpmf_lazy_flush(lazy, table));
    check_ok(dpmf_lazy_save(lazy, case_path("checkpoint")));
    memcpy(held, table, BYTES);
    run_steps(lazy, 4, 7, history, table);
    check_ok(dpmf_lazy_flush(lazy, table));
    run_steps(lazy, 7, CASE_STEPS, history, table);
    check_ok(dpmf_lazy_flush(lazy, table));
    dpmf_lazy_free(lazy);
}

static void test_a_run_that_is_resumed_repeats_its_flushes_bit_by_bit(void **unused) {
    (void)unused;
    float *table = new_table(), *held = new_table();
    whole_run("resumed", 1, table, held);
    dpmf_lazy *lazy = open_lazy(with_state("resumed", 1));
    check_ok(dpmf_lazy_load(lazy, case_path("checkpoint")));
    assert_true(dpmf_lazy_get(lazy).step == 4 && dpmf_lazy_get(lazy).reserved == 3);
    run_steps(lazy, 4, 7, 1, held);
    check_ok(dpmf_lazy_flush(lazy, held));
    run_steps(lazy, 7, CASE_STEPS, 1, held);
    check_ok(dpmf_lazy_flush(lazy, held));
    assert_memory_equal(table, held, BYTES);
    dpmf_lazy_free(lazy);
    free(table);
    free(held);
}

/* What differs in the repeated steps: the touched rows, the table, the factors, the flushed step. */
static void repeat_otherwise(int what) {
    float *table = new_table(), *held = new_table(), *before = new_table();
    char name[20];
    snprintf(name, sizeof name, "otherwise-%d", what);
    whole_run(name, 1, table, held);
    dpmf_lazy *lazy = open_lazy(with_state(name, 1));
    check_ok(dpmf_lazy_load(lazy, case_path("checkpoint")));
    run_steps(lazy, 4, 6, what == 0 ? 2 : 1, held);
    if (what == 1) held[77] += 1;
    if (what != 3) run_steps(lazy, 6, what == 4 ? 8 : 7, 1, held);
    if (what == 2) check_ok(dpmf_lazy_next(lazy, -0.25));
    memcpy(before, held, BYTES);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_flush(lazy, held));
    check_message("with another history");
    assert_memory_equal(before, held, BYTES);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_save(lazy, case_path("never")));
    dpmf_lazy_free(lazy);
    free(table);
    free(held);
    free(before);
}

static void test_another_history_gets_no_second_noise(void **unused) {
    (void)unused;
    for (int what = 0; what < 5; what++)
        repeat_otherwise(what);
}

/* Steps of factor 0 leave no trace in the table, but a touch between them draws the row's buffers. */
static void test_a_touch_that_leaves_the_table_as_it_was_is_history_too(void **unused) {
    const int64_t row[1] = {5};
    (void)unused;
    for (int k = 0; k < 2; k++) {
        float *table = new_table();
        dpmf_lazy *lazy = open_lazy(with_state("no-trace", k));
        check_ok(dpmf_lazy_next(lazy, 0));
        if (k == 1) check_ok(dpmf_lazy_touch(lazy, 1, row, table));
        for (int i = 0; i < WIDTH; i++)
            assert_true(table[5 * WIDTH + i] == 0);
        check_ok(dpmf_lazy_next(lazy, 1));
        if (k == 0)
            check_ok(dpmf_lazy_flush(lazy, table));
        else
            check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_flush(lazy, table));
        dpmf_lazy_free(lazy);
        free(table);
    }
}

static void test_flushes_that_were_given_need_replay(void **unused) {
    const int64_t row[1] = {1};
    (void)unused;
    float *table = new_table(), *held = new_table();
    whole_run("again", 1, table, held);
    dpmf_lazy *lazy = open_lazy(with_state("again", 0));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_touch(lazy, 1, row, table));
    check_message("its state file 3");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_next(lazy, 1));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_flush(lazy, table));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_load(lazy, case_path("checkpoint")));
    check_message("needs the option replay");
    dpmf_lazy_free(lazy);
    free(table);
    free(held);
}

/* A program that ended right after a flush was reserved: whether it arrived or not, the same history gets the same noise. */
static void test_a_killed_program_continues_with_the_same_noise(void **unused) {
    (void)unused;
    float *table = new_table();
    const pid_t child = fork();
    if (child == 0) {
        dpmf_lazy *lazy = open_lazy(with_state("killed", 0));
        run_steps(lazy, 0, 5, 1, table);
        check_ok(dpmf_lazy_flush(lazy, table));
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    dpmf_lazy *lazy = open_lazy(with_state("killed", 1));
    run_steps(lazy, 0, 5, 1, table);
    check_ok(dpmf_lazy_flush(lazy, table));
    assert_int_equal(dpmf_lazy_get(lazy).reserved, 1);
    check_ok(dpmf_lazy_next(lazy, 1));
    check_ok(dpmf_lazy_flush(lazy, table));
    assert_int_equal(dpmf_lazy_get(lazy).reserved, 2);
    dpmf_lazy_free(lazy);
    free(table);
}

static void test_a_child_of_fork_is_refused(void **unused) {
    (void)unused;
    float *table = new_table();
    dpmf_lazy *lazy = open_lazy(with_state(NULL, 0));
    check_ok(dpmf_lazy_next(lazy, 1));
    const pid_t child = fork();
    if (child == 0) {
        const int refused = dpmf_lazy_flush(lazy, table) == DPMF_ERROR_UNSUPPORTED;
        dpmf_lazy_free(lazy);
        _exit(!refused);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    check_ok(dpmf_lazy_flush(lazy, table));
    dpmf_lazy_free(lazy);
    free(table);
}

static void test_a_changed_checkpoint_and_that_of_another_table_are_refused(void **unused) {
    (void)unused;
    float *table = new_table(), *held = new_table();
    whole_run("changed", 1, table, held);
    FILE *file = fopen(case_path("checkpoint"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 600, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, 600, SEEK_SET), 0);
    fputc(byte ^ 1, file);
    fclose(file);
    dpmf_lazy *lazy = open_lazy(with_state("changed", 1));
    check_fails(DPMF_ERROR_FORMAT, dpmf_lazy_load(lazy, case_path("checkpoint")));
    check_message("has been changed");
    dpmf_lazy_free(lazy);
    whole_run("other", 1, table, held);
    dpmf_noise_options o = with_state(NULL, 0);
    check_ok(dpmf_lazy_create(mechanism, WIDTH, ROWS, 2.0, case_key, &o, &lazy));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_load(lazy, case_path("checkpoint")));
    dpmf_lazy_free(lazy);
    lazy = open_lazy(with_state(NULL, 0));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_lazy_load(lazy, case_path("checkpoint")));
    check_message("belongs to a stream with a state file");
    dpmf_lazy_free(lazy);
    free(table);
    free(held);
}

static dpmf_status open_it(dpmf_lazy **lazy) {
    dpmf_noise_options o = with_state(NULL, 0);
    return dpmf_lazy_create(mechanism, ROWS, WIDTH, 2.0, case_key, &o, lazy);
}

static void test_any_allocation_of_a_lazy_stream_may_fail(void **unused) {
    dpmf_lazy *lazy = NULL;
    (void)unused;
    float *table = new_table();
    FAIL_EACH(open_it(&lazy));
    check_ok(dpmf_lazy_next(lazy, 1));
    NEEDS_NO_MEMORY(dpmf_lazy_flush(lazy, table));
    FAIL_EACH(dpmf_lazy_save(lazy, case_path("failing")));
    FAIL_EACH(dpmf_lazy_load(lazy, case_path("failing")));
    dpmf_lazy_free(lazy);
    free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(test_a_row_that_has_its_noise_gets_none),
        cmocka_unit_test(test_no_step_beyond_the_mechanism_is_accepted),
        cmocka_unit_test(test_bad_arguments_are_refused_with_the_accepted_range),
        cmocka_unit_test(test_strategies_that_use_seeds_again_or_keep_many_rows_are_refused),
        cmocka_unit_test(test_the_noise_of_a_table_is_that_of_no_other_stream),
        cmocka_unit_test(test_a_checkpoint_without_a_flush_is_refused),
        cmocka_unit_test(test_a_run_that_is_resumed_repeats_its_flushes_bit_by_bit),
        cmocka_unit_test(test_another_history_gets_no_second_noise),
        cmocka_unit_test(test_a_touch_that_leaves_the_table_as_it_was_is_history_too),
        cmocka_unit_test(test_flushes_that_were_given_need_replay),
        cmocka_unit_test(test_a_killed_program_continues_with_the_same_noise),
        cmocka_unit_test(test_a_child_of_fork_is_refused),
        cmocka_unit_test(test_a_changed_checkpoint_and_that_of_another_table_are_refused),
        cmocka_unit_test(test_any_allocation_of_a_lazy_stream_may_fail)};
    return cmocka_run_group_tests_name("the lazy stream", tests, setup, teardown);
}
