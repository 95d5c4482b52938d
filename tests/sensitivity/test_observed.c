/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sensitivity of an actual run: compared with brute force over the units, against the participations whose every
 * pattern a log realises, and the structures of C'C that it reads by diagonals and by rows.
 */
#include "support/failing_allocator.h"
#include "support/sensitivity_cases.h"
#include "support/sensitivity_reference.h"

#include "sensitivity/observed.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 20000 };

typedef struct log {
    int64_t count;
    int64_t unit[MOST], step[MOST];
} log_;

static void put(log_ *l, int64_t unit, int64_t step) {
    assert_true(l->count < MOST);
    l->unit[l->count] = unit;
    l->step[l->count++] = step;
}

/* In another order: the answer must not depend on it. */
static void shuffle(log_ *l, uint64_t seed) {
    for (int64_t i = l->count - 1; i > 0; i--) {
        int64_t j = (int64_t)((check_random(&seed) + 1) / 2 * (double)(i + 1)), t = l->unit[i], u = l->step[i];
        l->unit[i] = l->unit[j];
        l->step[i] = l->step[j];
        l->unit[j] = t;
        l->step[j] = u;
    }
}

static dpmf_sensitivity observe(const dpmf_strategy *s, const log_ *l, dpmf_sensitivity_bound bound, int64_t *worst) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity found = {0};
    o.sensitivity = bound;
    check_ok(dpmf_sensitivity_observed(s, l->count, l->unit, l->step, &o, &found, worst));
    return found;
}

/* `units` units, numbered with gaps and signs, each in up to `most` random steps. */
static log_ *random_log(int64_t n, int64_t units, int64_t most, uint64_t seed) {
    log_ *l = calloc(1, sizeof *l);
    for (int64_t i = 0; i < units; i++) {
        int64_t size = 1 + (int64_t)((check_random(&seed) + 1) / 2 * (double)most);
        for (int64_t j = 0; j < size; j++) {
            int64_t step = (int64_t)((check_random(&seed) + 1) / 2 * (double)n), unit = (i - units / 2) * 1000003;
            int again = 0;
            for (int64_t p = 0; p < l->count; p++)
                again |= l->unit[p] == unit && l->step[p] == step;
            if (!again) put(l, unit, step);
        }
    }
    shuffle(l, seed);
    return l;
}

/* ---- brute force ---- */

static int rising(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* The steps of one unit. */
static int steps_of(const log_ *l, int64_t unit, int *steps) {
    int size = 0;
    for (int64_t i = 0; i < l->count; i++)
        if (l->unit[i] == unit) steps[size++] = (int)l->step[i];
    qsort(steps, (size_t)size, sizeof *steps, rising);
    return size;
}

/* Every unit's pattern by the reference of the tests; `value` of one unit alone if `only` is not NULL. */
static void brute_force(const dpmf_strategy *s, const log_ *l, const int64_t *only, reference *r) {
    int steps[REFERENCE_PICKS];
    reference_gram(s, r);
    r->absolute = r->reached = r->best_signs = r->spectral = 0;
    r->starts = 8;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < l->count; i++) {
            if (only != NULL && l->unit[i] != *only) continue;
            int size = steps_of(l, l->unit[i], steps);
            if (steps[0] == l->step[i]) reference_pattern(r, size, steps, pass); /* each unit once */
        }
    r->reached = fmax(r->reached, r->best_signs);
    free(r->x);
}

static void check_against_brute_force(const dpmf_strategy *s, const log_ *l) {
    reference r = {.seed = 5}, alone = {.seed = 6};
    int64_t worst = 0;
    brute_force(s, l, NULL, &r);
    dpmf_sensitivity found = observe(s, l, DPMF_BOUND_AUTO, &worst);
    if (found.kind == DPMF_EXACT)
        check_near(found.value, sqrt(r.reached), 1e-9);
    else
        assert_true(found.value >= sqrt(r.reached) * (1 - 1e-12) &&
                    found.value <= sqrt(M_PI_2 * r.reached) * (1 + 1e-9));
    if (!r.negative) assert_int_equal(found.kind, DPMF_EXACT);
    brute_force(s, l, &worst, &alone);
    if (found.kind == DPMF_EXACT) check_near(sqrt(alone.reached), found.value, 1e-9); /* it is the worst one */
    check_near(observe(s, l, DPMF_BOUND_ABSOLUTE, NULL).value, sqrt(r.absolute), 1e-12);
    check_near(observe(s, l, DPMF_BOUND_SPECTRAL, NULL).value, sqrt(r.spectral), 1e-10);
    check_near(observe(s, l, DPMF_BOUND_SIGNS, NULL).value, sqrt(M_PI_2 * r.best_signs), 1e-9);
}

static dpmf_strategy *tvblt(int64_t steps, const char *workload) {
    dpmf_workload *a = NULL;
    dpmf_strategy *s = NULL;
    dpmf_optimization result;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    check_ok(dpmf_workload_parse(workload, steps, &a));
    check_ok(dpmf_optimize("tvblt", a, NULL, &o, &s, &result));
    dpmf_workload_free(a);
    return s;
}

static dpmf_strategy *mixed_toeplitz(int64_t steps) {
    double c[30];
    dpmf_strategy *s = NULL;
    for (int i = 0; i < 30; i++)
        c[i] = (i % 3 == 1 ? -1.0 : 1.0) / (1 + i);
    check_ok(dpmf_strategy_create_toeplitz(steps, DPMF_TOEPLITZ, 30, c, &s));
    return s;
}

static void test_a_log_has_the_sensitivity_that_brute_force_finds(void **unused) {
    (void)unused;
    for (int i = 0; i < 12; i++) {
        dpmf_strategy *s = i == 0   ? family("toeplitz", 48, 1, 0)
                           : i == 1 ? family("toeplitz", 48, 3, 0)
                           : i == 2 ? family("toeplitz", 48, 1, 1)
                           : i == 3 ? family("tree-online", 48, 1, 0)
                           : i == 4 ? family("fft", 48, 2, 0)
                           : i == 5 ? tvblt(48, "prefix")
                           : i == 6 ? tvblt(48, "momentum:0.9,cooldown:0.5:0.1")
                           : i == 7 ? mixed_toeplitz(48)
                           : i == 8 ? random_dense(48, 9, 3)
                                    : random_dense(48, 0, (uint64_t)i);
        for (int most = 1; most <= 10; most += 3) {
            log_ *l = random_log(48, 40, most, (uint64_t)(100 * i + most));
            check_against_brute_force(s, l);
            free(l);
        }
        dpmf_strategy_free(s);
    }
}

/* ---- a log that realises every pattern of a participation ---- */

static void check_cyclic(const dpmf_strategy *s, int64_t k, int64_t b) {
    log_ *l = calloc(1, sizeof *l);
    char text[40];
    int64_t worst = -1;
    for (int64_t t = 0; t < dpmf_strategy_get(s).steps; t++)
        put(l, t % b, t);
    shuffle(l, 11);
    snprintf(text, sizeof text, "cyclic:%d,%d", (int)k, (int)b);
    for (int bound = DPMF_BOUND_AUTO; bound <= DPMF_BOUND_SIGNS; bound++) {
        dpmf_sensitivity want = compute(s, text, (dpmf_sensitivity_bound)bound);
        dpmf_sensitivity got = observe(s, l, (dpmf_sensitivity_bound)bound, &worst);
        check_near(got.value, want.value, 1e-12);
        assert_int_equal(got.kind, want.kind);
    }
    assert_true(worst >= 0 && worst < b);
    free(l);
}

static void test_a_log_of_cyclic_passes_has_the_cyclic_sensitivity(void **unused) {
    (void)unused;
    dpmf_strategy *all[] = {family("toeplitz", 200, 1, 0), family("toeplitz", 200, 2, 1), family("identity", 200, 1, 0),
                            family("tree", 200, 1, 0),     mixed_toeplitz(200),           tvblt(200, "prefix"),
                            random_dense(200, 0, 4),       random_dense(200, 30, 5)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check_cyclic(all[i], 4, 50);
        check_cyclic(all[i], 8, 27);
        dpmf_strategy_free(all[i]);
    }
}

/* All separated patterns of three steps: as min-separation says. A log of some of them: no more. */
static void test_a_log_of_all_separated_patterns_has_their_sensitivity(void **unused) {
    dpmf_strategy *s = random_dense(24, 0, 8);
    log_ *l = calloc(1, sizeof *l);
    int64_t unit = 0;
    (void)unused;
    for (int64_t a = 0; a < 24; a++)
        for (int64_t b = a + 5; b < 24; b++)
            for (int64_t c = b + 5; c < 24; c++) {
                put(l, unit, a);
                put(l, unit, b);
                put(l, unit++, c);
            }
    double all = compute(s, "minsep:3,5", DPMF_BOUND_AUTO).value;
    check_near(observe(s, l, DPMF_BOUND_AUTO, NULL).value, all, 1e-12);
    l->count /= 2;
    assert_true(observe(s, l, DPMF_BOUND_AUTO, NULL).value <= all * (1 + 1e-12));
    free(l);
    dpmf_strategy_free(s);
}

/* ---- many units; lines by rows and by diagonals ---- */

/* 3000 units of four rounds, one in each quarter. */
static log_ *quarters(int64_t n) {
    log_ *l = calloc(1, sizeof *l);
    uint64_t seed = 77;
    for (int64_t unit = 0; unit < 3000; unit++)
        for (int64_t j = 0; j < 4; j++)
            put(l, unit, n / 4 * j + (int64_t)((check_random(&seed) + 1) / 2 * (double)(n / 4)));
    return l;
}

static dpmf_strategy *of_kind(int kind, int64_t n) {
    return kind == 0   ? family("toeplitz", n, 1, 0)
           : kind == 1 ? tvblt(n, "prefix")
           : kind == 2 ? mixed_toeplitz(n)
                       : random_dense(n, 40, 2);
}

/* More units than are looked at first. C >= 0: the columns of a unit added up. */
static void test_the_worst_of_many_units_is_found(void **unused) {
    enum { N = 600 };
    (void)unused;
    for (int kind = 0; kind < 2; kind++) {
        dpmf_strategy *s = of_kind(kind, N);
        log_ *l = quarters(N);
        double column[N], largest = 0;
        int64_t worst = -1, best = -1;
        for (int64_t i = 0; i < l->count; i += 4) {
            double sum[N] = {0}, square = 0;
            for (int64_t j = 0; j < 4; j++) {
                check_ok(dpmf_strategy_column(s, l->step[i + j], column));
                for (int64_t t = 0; t < N; t++)
                    sum[t] += column[t];
            }
            for (int64_t t = 0; t < N; t++)
                square += sum[t] * sum[t];
            if (square > largest) best = l->unit[i];
            largest = fmax(largest, square);
        }
        dpmf_sensitivity found = observe(s, l, DPMF_BOUND_AUTO, &worst);
        check_near(found.value, sqrt(largest), 1e-12);
        assert_int_equal(found.kind, DPMF_EXACT);
        assert_int_equal(worst, best);
        free(l);
        dpmf_strategy_free(s);
    }
}

static double product(const dpmf_strategy *s, int64_t t, int64_t u) {
    double x = 0, *left = calloc(2 * (size_t)dpmf_strategy_get(s).rows, sizeof *left);
    double *right = left + dpmf_strategy_get(s).rows;
    check_ok(dpmf_strategy_column(s, t, left));
    check_ok(dpmf_strategy_column(s, u, right));
    for (int64_t i = 0; i < dpmf_strategy_get(s).rows; i++)
        x += left[i] * right[i];
    free(left);
    return x;
}

/* The sums over one pattern against columns; the majorant is none below. */
static void check_sums(const sensitivity_lines *lines, int64_t pattern, const sensitivity_pattern_sums *sums) {
    const sensitivity_log *log = lines->log;
    const sensitivity_task *task = lines->task;
    double plain = 0, absolute = 0;
    int negative = 0;
    for (int64_t a = log->begins[pattern]; a < log->begins[pattern + 1]; a++)
        for (int64_t b = a; b < log->begins[pattern + 1]; b++) {
            int64_t t = log->steps[a], lag = log->steps[b] - t;
            double x = product(task->strategy, t, t + lag);
            plain += (a == b ? 1 : 2) * x;
            absolute += (a == b ? 1 : 2) * fabs(x);
            if (x < -1e-12) negative = 1;
            if (lag > 0 && lag < task->reach)
                assert_true(lines->majorant[t * SENSITIVITY_MAJORANT_BLOCKS / task->n * task->reach + lag] >=
                            fabs(x) - 1e-12);
        }
    check_near(base_running_value(&sums->plain), plain, 1e-11);
    check_near(base_running_value(&sums->absolute), absolute, 1e-11);
    if (negative) assert_true(sums->negative);
}

/* Memory for a few lines at a time: every entry is still used once. By rows for a TV-BLT. */
static void test_few_lines_at_a_time_take_every_entry_once(void **unused) {
    enum { N = 600, PATTERNS = 60 };
    (void)unused;
    for (int kind = 0; kind < 4; kind++) {
        dpmf_strategy *s = of_kind(kind, N);
        log_ *l = quarters(N);
        sensitivity_task task = {.strategy = s, .n = N, .k = 4, .b = 1, .bytes_max = 30000};
        sensitivity_log log = {0};
        sensitivity_lines lines = {0};
        int64_t which[PATTERNS];
        sensitivity_pattern_sums sums[PATTERNS];
        int affordable = 0;
        check_ok(base_pool_create(2, &task.pool));
        check_ok(sensitivity_task_open(&task));
        check_ok(sensitivity_log_open(N, l->count, l->unit, l->step, NULL, &log));
        check_ok(sensitivity_lines_open(&task, &log, &lines, &affordable));
        assert_true(affordable);
        assert_int_equal(lines.by_rows != NULL, kind == 1);
        for (int64_t p = 0; p < PATTERNS; p++)
            which[p] = 29 * p % log.count;
        check_ok(sensitivity_lines_majorant(&lines));
        check_ok(sensitivity_lines_sums(&lines, PATTERNS, which, sums));
        for (int64_t p = 0; p < PATTERNS; p++)
            check_sums(&lines, which[p], &sums[p]);
        sensitivity_lines_close(&lines);
        sensitivity_log_close(&log);
        sensitivity_task_close(&task);
        base_pool_free(task.pool);
        free(l);
        dpmf_strategy_free(s);
    }
}

/* Equal patterns are one, named by the smallest unit. */
static void test_equal_patterns_are_one_named_by_the_smallest_unit(void **unused) {
    dpmf_strategy *s = family("toeplitz", 100, 1, 0);
    log_ *l = calloc(1, sizeof *l);
    sensitivity_log log = {0};
    int64_t worst = 0;
    (void)unused;
    for (int64_t unit = 0; unit < 500; unit++)
        for (int64_t j = 0; j < 3; j++)
            put(l, 7 - unit, 10 * j + unit % 4); /* earliest: units 7, 3, -1, ... */
    shuffle(l, 3);
    check_ok(sensitivity_log_open(100, l->count, l->unit, l->step, NULL, &log));
    assert_int_equal(log.count, 4);
    assert_int_equal(log.longest, 3);
    sensitivity_log_close(&log);
    (void)observe(s, l, DPMF_BOUND_AUTO, &worst);
    assert_int_equal(worst, 7 - 496);
    free(l);
    dpmf_strategy_free(s);
}

/* With this many lines only column norms are affordable: labelled, and above the truth; one step each: exact. */
static void test_a_log_too_long_for_entries_is_bounded_by_norms(void **unused) {
    const int64_t n = (int64_t)3000000;
    const double scale[2] = {0.2, 0.1}, gap[2] = {0.1, 1e-3};
    dpmf_strategy *s = NULL;
    log_ *l = calloc(1, sizeof *l);
    (void)unused;
    check_ok(dpmf_strategy_create_blt(n, 2, scale, NULL, gap, &s));
    for (int64_t i = 0; i < 9000; i++) {
        put(l, i, i);
        put(l, i, 4000 + 3 * i);
    }
    dpmf_sensitivity found = observe(s, l, DPMF_BOUND_AUTO, NULL);
    double column = compute(s, "single", DPMF_BOUND_AUTO).value;
    assert_int_equal(found.kind, DPMF_UPPER_BOUND);
    assert_string_equal(found.method, "sum of column norms over a pattern");
    assert_true(found.value >= compute(s, "minsep:2,4000", DPMF_BOUND_AUTO).value);
    check_near(found.value, 2 * column, 1e-9);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.sensitivity = DPMF_BOUND_SIGNS;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_sensitivity_observed(s, l->count, l->unit, l->step, &o, &found, NULL));
    free(l);
    dpmf_strategy_free(s);
}

static void test_replacing_a_unit_doubles_what_was_observed(void **unused) {
    dpmf_strategy *s = family("toeplitz", 48, 1, 0);
    log_ *l = random_log(48, 10, 5, 1);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity zero = {0}, found = {0};
    (void)unused;
    check_ok(dpmf_sensitivity_observed(s, l->count, l->unit, l->step, NULL, &zero, NULL));
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    check_ok(dpmf_sensitivity_observed(s, l->count, l->unit, l->step, &o, &found, NULL));
    assert_true(found.value == 2 * zero.value);
    free(l);
    dpmf_strategy_free(s);
}

static void test_a_log_with_steps_outside_or_twice_is_refused(void **unused) {
    dpmf_strategy *s = family("toeplitz", 48, 1, 0);
    const int64_t unit[4] = {-3, 8, -3, -3}, step[4] = {1, 1, 47, 1}, outside[3] = {0, 48, 1}, before[3] = {0, 1, -1};
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity found = {.value = -7};
    int64_t worst = -7;
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_observed(NULL, 3, unit, step, NULL, &found, &worst));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_observed(s, 0, unit, step, NULL, &found, &worst));
    check_message("0 participations");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_observed(s, 3, unit, NULL, NULL, &found, &worst));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_observed(s, 4, unit, step, NULL, &found, &worst));
    check_message("unit -3 takes part twice in step 1");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_observed(s, 3, unit, outside, NULL, &found, &worst));
    check_message("participation 1 is in step 48, accepted 0 to 47");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_observed(s, 3, unit, before, NULL, &found, &worst));
    check_message("step -1");
    log_ *l = calloc(1, sizeof *l);
    for (int64_t t = 0; t < 21; t++)
        put(l, 1, t);
    o.sensitivity = DPMF_BOUND_SIGNS;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_observed(s, 21, l->unit, l->step, &o, &found, &worst));
    check_message("21 participations, accepted up to 20");
    free(l);
    assert_true(found.value == -7 && worst == -7);
    check_ok(dpmf_sensitivity_observed(s, 3, unit, step, NULL, &found, &worst));
    assert_int_equal(worst, -3);
    dpmf_strategy_free(s);
    const double huge[4] = {1e160, 0, 1e160, 1e160};
    s = dense(2, huge);
    check_fails(DPMF_ERROR_NUMERICAL, dpmf_sensitivity_observed(s, 1, unit, step, NULL, &found, &worst));
    dpmf_strategy_free(s);
}

static int stop_at(void *context, const char *what, double done) {
    int64_t *left = context;
    assert_non_null(what);
    assert_true(done <= 1);
    return --*left == 0;
}

static void test_threads_stops_and_lost_memory_do_not_change_a_log(void **unused) {
    (void)unused;
    for (int i = 0; i < 3; i++) {
        dpmf_strategy *s = i == 0   ? random_dense(64, 0, 21)
                           : i == 1 ? tvblt(64, "prefix")
                                    : family("toeplitz", 64, 2, 1);
        log_ *l = random_log(64, 60, 7, (uint64_t)i + 31);
        dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
        dpmf_sensitivity one = {0}, found = {.value = -7};
        int64_t worst_of_one = 0, worst = 0;
        o.run.threads = 1;
        check_ok(dpmf_sensitivity_observed(s, l->count, l->unit, l->step, &o, &one, &worst_of_one));
        const uint64_t before = dpmf_memory_in_use();
        o.run.progress = stop_at;
        for (int64_t at = 1;; at++) { /* cancelled at each call in turn */
            int64_t left = at;
            o.run.context = &left;
            dpmf_status status = dpmf_sensitivity_observed(s, l->count, l->unit, l->step, &o, &found, NULL);
            assert_int_equal(dpmf_memory_in_use(), before);
            if (status == DPMF_OK) break;
            assert_int_equal(status, DPMF_ERROR_CANCELLED);
            assert_true(found.value == -7);
        }
        o.run.progress = NULL;
        for (o.run.threads = 2; o.run.threads <= 4; o.run.threads++) {
            check_ok(dpmf_sensitivity_observed(s, l->count, l->unit, l->step, &o, &found, &worst));
            assert_true(found.value == one.value && worst == worst_of_one);
        }
        o.run.threads = 1;
        FAIL_EACH(dpmf_sensitivity_observed(s, l->count, l->unit, l->step, &o, &found, &worst));
        assert_true(found.value == one.value);
        free(l);
        dpmf_strategy_free(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_log_has_the_sensitivity_that_brute_force_finds),
        cmocka_unit_test(test_a_log_of_cyclic_passes_has_the_cyclic_sensitivity),
        cmocka_unit_test(test_a_log_of_all_separated_patterns_has_their_sensitivity),
        cmocka_unit_test(test_the_worst_of_many_units_is_found),
        cmocka_unit_test(test_few_lines_at_a_time_take_every_entry_once),
        cmocka_unit_test(test_equal_patterns_are_one_named_by_the_smallest_unit),
        cmocka_unit_test(test_a_log_too_long_for_entries_is_bounded_by_norms),
        cmocka_unit_test(test_replacing_a_unit_doubles_what_was_observed),
        cmocka_unit_test(test_a_log_with_steps_outside_or_twice_is_refused),
        cmocka_unit_test(test_threads_stops_and_lost_memory_do_not_change_a_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
