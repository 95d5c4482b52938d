/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams without a horizon: the strategy against dense matrices, the length of its columns by brute force on finite
 * parts and on small shapes whose columns end soon, files, and the figures that do not depend on the number of steps.
 */
#include "families/unbounded/unbounded.h"
#include "strategy/strategy.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dpmf_strategy *unbounded(int64_t steps) {
    dpmf_workload *a = workload_of("prefix", steps);
    dpmf_strategy *s = NULL;
    check_ok(dpmf_strategy_create("unbounded", a, NULL, &s));
    dpmf_workload_free(a);
    return s;
}

static void test_an_unbounded_strategy_is_its_matrix(void **state) {
    static const int64_t STEPS[] = {1, 2, 7, 8, 9, 33, 34, 40, 97};
    (void)state;
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        dpmf_strategy *s = unbounded(STEPS[i]);
        dpmf_workload *prefix = workload_of("prefix", STEPS[i]), *other = workload_of("momentum:0.9", STEPS[i]);
        check_strategy(s, 1e-12);
        check_factorization(prefix, s, 1e-12);
        check_factorization(other, s, 1e-12);
        dpmf_workload_free(prefix);
        dpmf_workload_free(other);
        dpmf_strategy_free(s);
    }
}

/* ---- the length of columns ---- */

static double square_of_column(const dpmf_strategy *s, int64_t j, double *column) {
    double sum = 0;
    check_ok(dpmf_strategy_column(s, j, column));
    for (int64_t t = dpmf_strategy_get(s).steps - 1; t >= j; t--)
        sum += column[t] * column[t];
    return sum;
}

/* By brute force: no column is longer than 1 over the first 2^18 steps, and those of a block's start come near it. */
static void test_no_column_of_a_finite_part_is_longer_than_one(void **state) {
    enum { STEPS = 1 << 18 };
    double *column = malloc(STEPS * sizeof *column), last = 1;
    dpmf_strategy *s = unbounded(STEPS);
    (void)state;
    for (int64_t j = 0; j < 100; j++) {
        double square = square_of_column(s, j, column);
        if (!(square <= 1)) fail_msg("column %lld has the square %.17g", (long long)j, square);
        if (j < 32 || j == 35 || j == 38) assert_true(square > 0.98); /* the rest comes after the last of these */
    }
    for (int64_t j = 35; j < 38; j++) { /* one block: its columns do not grow */
        double square = square_of_column(s, j, column);
        assert_true(square < last);
        last = square;
    }
    free(column);
    dpmf_strategy_free(s);
}

/* All columns of the first 3000 steps, from C'C. */
static void test_no_column_of_the_first_3000_is_longer_than_one(void **state) {
    enum { STEPS = 3000 };
    double norms[STEPS];
    dpmf_strategy *s = unbounded(STEPS);
    (void)state;
    check_ok(dpmf_strategy_column_norms(s, norms));
    for (int64_t j = 0; j < STEPS; j++)
        assert_true(norms[j] <= 1);
    dpmf_strategy_free(s);
}

/* A shape whose columns have ended long before 6000 steps: the closed form is the whole sum. */
static void fill_small_shape(unbounded_shape *c) {
    static const double GAP[] = {0.9, 0.3, 0.05, 0.02}, SCALE[] = {0.1, 0.25, 0.2, 0.1};
    static const double START[] = {0, 1, 2, 5, 11, 40, 100}, ACTIVE[] = {1, 1, 2, 2, 3, 3, 4};
    static const double GAIN[] = {1, 0.9, 0.9, 0.7, 0.6, 0.55, 0.3};
    check_ok(unbounded_shape_alloc(4, 7, c));
    memcpy(c->gap, GAP, sizeof GAP);
    memcpy(c->scale, SCALE, sizeof SCALE);
    memcpy(c->start, START, sizeof START);
    memcpy(c->active, ACTIVE, sizeof ACTIVE);
    memcpy(c->gain, GAIN, sizeof GAIN);
    unbounded_shape_norms(c, c->norm);
    check_ok(unbounded_shape_check(c));
}

/* The square of column u of G T, entry by entry from the definition. */
static double brute_square(const unbounded_shape *c, int64_t u) {
    double content[4] = {1, 1, 1, 1}, sum = 0;
    for (int64_t t = u; t < u + 6000; t++) {
        int64_t block = 0;
        while (block + 1 < c->blocks && c->start[block + 1] <= (double)t)
            block++;
        double entry = t == u ? 1 : 0;
        for (int64_t i = 0; i < c->nodes && t > u; i++)
            entry += c->scale[i] * content[i];
        for (int64_t i = 0; i < (int64_t)c->active[block] && t > u; i++)
            content[i] *= 1 - c->gap[i];
        sum += c->gain[block] * c->gain[block] * entry * entry;
    }
    return sum;
}

static void test_the_sums_over_blocks_are_the_whole_columns(void **state) {
    unbounded_shape c = {0};
    (void)state;
    fill_small_shape(&c);
    for (int64_t u = 0; u < 300; u++) {
        int64_t block = unbounded_block(&c, u);
        double square = brute_square(&c, u), bound = c.norm[block] * c.norm[block];
        if (c.start[block] == (double)u)
            check_near(square, bound, 1e-13);
        else
            assert_true(square <= bound * (1 + 1e-13));
    }
    unbounded_shape_free(&c);
}

static void test_the_sensitivity_of_a_stream_without_a_horizon_is_one(void **state) {
    static const int64_t STEPS[] = {1, 100, (int64_t)1 << 40};
    dpmf_sensitivity found;
    (void)state;
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        dpmf_strategy *s = unbounded(STEPS[i]);
        check_ok(dpmf_sensitivity_compute(s, NULL, NULL, &found));
        assert_int_equal(found.kind, DPMF_UPPER_BOUND);
        assert_true(found.value >= 1 && found.value <= 1 + 1e-11);
        dpmf_strategy_free(s);
    }
}

/* ---- figures that do not depend on the steps, and files ---- */

static void test_buffers_grow_with_the_logarithm_of_the_steps(void **state) {
    static const int64_t STEPS[] = {1, 1 << 13, 1 << 20, 1 << 24, 1 << 30, (int64_t)1 << 40};
    static const int64_t BUFFERS[] = {6, 6, 7, 8, 10, 12};
    (void)state;
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        dpmf_strategy *s = unbounded(STEPS[i]);
        assert_int_equal(dpmf_strategy_get(s).buffers, BUFFERS[i]);
        dpmf_strategy_free(s);
    }
}

static void test_rows_of_noise_do_not_depend_on_the_steps_to_come(void **state) {
    enum { STEPS = 20000 };
    dpmf_strategy *brief = unbounded(STEPS), *endless = unbounded(DPMF_UNBOUNDED_STEPS_MAX), *head = NULL;
    double first[16] = {0}, second[16] = {0}, third[16] = {0};
    uint64_t x = 5;
    (void)state;
    check_ok(strategy_cut(endless, STEPS, &head));
    assert_int_equal(dpmf_strategy_get(head).steps, STEPS);
    for (int64_t t = 0; t < STEPS; t++) {
        double z = check_random(&x), a = 0, b = 0, c = 0;
        check_ok(dpmf_strategy_step(brief, t, 1, &z, first, &a));
        check_ok(dpmf_strategy_step(endless, t, 1, &z, second, &b));
        check_ok(dpmf_strategy_step(head, t, 1, &z, third, &c));
        assert_true(a == b && b == c);
    }
    dpmf_strategy_free(head);
    dpmf_strategy_free(brief);
    dpmf_strategy_free(endless);
}

static void test_more_than_2_to_the_40_unbounded_steps_are_refused(void **state) {
    dpmf_workload *a = workload_of("prefix", DPMF_UNBOUNDED_STEPS_MAX + 1);
    dpmf_strategy *s = NULL;
    (void)state;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("unbounded", a, NULL, &s));
    check_message("2^40");
    assert_null(s);
    dpmf_workload_free(a);
}

/* One number of a sound shape made unsound at a time. */
static void test_an_unsound_shape_is_refused(void **state) {
    unbounded_shape c = {0};
    (void)state;
    fill_small_shape(&c);
#define UNSOUND(place, value)                                                                                          \
    do {                                                                                                               \
        double kept = place;                                                                                           \
        place = value;                                                                                                 \
        check_fails(DPMF_ERROR_FORMAT, unbounded_shape_check(&c));                                                     \
        place = kept;                                                                                                  \
        check_ok(unbounded_shape_check(&c));                                                                           \
    } while (0)
    UNSOUND(c.gap[1], 0.95);
    UNSOUND(c.gap[3], 0);
    UNSOUND(c.gap[0], NAN);
    UNSOUND(c.scale[2], -0.1);
    UNSOUND(c.gain[4], 0.71);
    UNSOUND(c.gain[6], -0.3);
    UNSOUND(c.start[0], 1);
    UNSOUND(c.start[3], 2);
    UNSOUND(c.start[3], 2.5);
    UNSOUND(c.active[6], 3);
    UNSOUND(c.active[2], 1.5);
    UNSOUND(c.active[3], 1);
    UNSOUND(c.norm[2], 0);
#undef UNSOUND
    unbounded_shape_free(&c);
}

/* A file whose columns are longer than 1 is detected: the sensitivity is computed from its numbers. */
static void test_longer_columns_in_a_file_show_in_the_sensitivity(void **state) {
    unbounded_shape c = {0};
    (void)state;
    fill_small_shape(&c);
    check_near(unbounded_longest(&c), 1, 1e-11);
    c.norm[3] /= 2;
    check_near(unbounded_longest(&c), 2, 1e-11);
    unbounded_shape_free(&c);
}

static void test_any_allocation_of_an_unbounded_strategy_may_fail(void **state) {
    dpmf_strategy *s = NULL;
    (void)state;
    FAIL_EACH(unbounded_create(50, &s));
    dpmf_strategy_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unbounded_strategy_is_its_matrix),
        cmocka_unit_test(test_no_column_of_a_finite_part_is_longer_than_one),
        cmocka_unit_test(test_no_column_of_the_first_3000_is_longer_than_one),
        cmocka_unit_test(test_the_sums_over_blocks_are_the_whole_columns),
        cmocka_unit_test(test_the_sensitivity_of_a_stream_without_a_horizon_is_one),
        cmocka_unit_test(test_buffers_grow_with_the_logarithm_of_the_steps),
        cmocka_unit_test(test_rows_of_noise_do_not_depend_on_the_steps_to_come),
        cmocka_unit_test(test_more_than_2_to_the_40_unbounded_steps_are_refused),
        cmocka_unit_test(test_an_unsound_shape_is_refused),
        cmocka_unit_test(test_longer_columns_in_a_file_show_in_the_sensitivity),
        cmocka_unit_test(test_any_allocation_of_an_unbounded_strategy_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
