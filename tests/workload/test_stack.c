/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and matrices of any shape: against their parts, dense algebra and their definition; through files; refusals. */
#include "support/check.h"
#include "support/failing_allocator.h"

#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 24 };

static const char *const PART[] = {"prefix", "momentum:0.9,cooldown:0.25:0.1", "decay:0.03", "window:5", "nesterov:0.5",
                                   "mean"};
enum { PARTS = sizeof PART / sizeof PART[0] };

static const char *const FAMILY[] = {"identity", "toeplitz", "tree-online", "tree-full", "fft-opt"};
enum { FAMILIES = sizeof FAMILY / sizeof FAMILY[0] };

static dpmf_strategy *strategy_of(int which, int64_t steps, uint64_t *seed) {
    dpmf_workload *prefix = workload_of("prefix", steps);
    dpmf_strategy *s = NULL;
    double *c = calloc((size_t)(steps * steps), sizeof *c);
    for (int64_t t = 0; t < steps; t++)
        for (int64_t u = 0; u <= t; u++)
            c[t * steps + u] = (u == t ? 1.5 : 0) + 0.4 * check_random(seed);
    if (which < FAMILIES)
        check_ok(dpmf_strategy_create(FAMILY[which], prefix, NULL, &s));
    else
        check_ok(dpmf_strategy_create_dense(steps, c, &s));
    free(c);
    dpmf_workload_free(prefix);
    return s;
}

static void test_squared_errors_of_a_sum_are_the_weighted_sums_of_its_parts(void **state) {
    uint64_t seed = 7;
    (void)state;
    for (int which = 0; which <= FAMILIES; which++)
        for (int i = 0; i < PARTS; i++) {
            char text[200];
            double whole[STEPS], part[STEPS], sum[STEPS] = {0};
            const double weight[2] = {0.3 + i, 1};
            const int use[2] = {i, (i + 1 + which) % PARTS};
            dpmf_strategy *s = strategy_of(which, STEPS, &seed);
            dpmf_evaluation all = {0}, one = {0};
            double total = 0;
            snprintf(text, sizeof text, "%.17g*%s + %s", weight[0], PART[use[0]], PART[use[1]]);
            dpmf_workload *w = workload_of(text, STEPS);
            check_ok(dpmf_error_compute(w, s, NULL, whole));
            check_ok(dpmf_evaluate(w, NULL, s, NULL, &all, NULL));
            for (int k = 0; k < 2; k++) {
                dpmf_workload *a = workload_of(PART[use[k]], STEPS);
                check_ok(dpmf_error_compute(a, s, NULL, part));
                check_ok(dpmf_evaluate(a, NULL, s, NULL, &one, NULL));
                total += weight[k] * one.total_squared_loss;
                for (int t = 0; t < STEPS; t++)
                    sum[t] += weight[k] * part[t] * part[t];
                dpmf_workload_free(a);
            }
            for (int t = 0; t < STEPS; t++)
                check_near(whole[t] * whole[t] / sum[t], 1, 1e-12);
            check_near(all.total_squared_loss / total, 1, 1e-12);
            check_near(all.rms_loss * all.rms_loss * STEPS / total, 1, 1e-12);
            dpmf_workload_free(w);
            dpmf_strategy_free(s);
        }
}

static void test_a_stack_of_one_workload_is_that_workload(void **state) {
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        dpmf_workload *plain = workload_of(PART[i], STEPS), *one = NULL;
        const dpmf_workload *list[] = {plain};
        const double weight = 1;
        char text[100];
        check_ok(dpmf_workload_create(
            STEPS, &(dpmf_workload_options){.parts = 1, .part = list, .part_weights = &weight}, &one));
        assert_ptr_equal(one, plain);
        dpmf_workload_free(one);
        snprintf(text, sizeof text, "1*%s", PART[i]);
        one = workload_of(text, STEPS);
        assert_true(workload_equal(one, plain) && !workload_is_stack(one));
        dpmf_workload_free(one);
        dpmf_workload_free(plain);
    }
    dpmf_workload *identity = workload_of("identity", STEPS);
    double *matrix = check_workload_matrix(identity);
    for (int i = 0; i < STEPS * STEPS; i++)
        check_near(matrix[i], i % (STEPS + 1) == 0, 0);
    free(matrix);
    dpmf_workload_free(identity);
}

/* Rows with random ends, some of them lower triangular, some of ones and zeros. */
static double *random_rows(int64_t rows, int64_t n, uint64_t *seed) {
    double *a = calloc((size_t)(rows * n), sizeof *a);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t last = (int64_t)((check_random(seed) + 1) / 2 * (double)n);
        for (int64_t u = 0; u <= last; u++)
            a[r * n + u] = rows % 2 == 0 ? check_random(seed) : check_random(seed) > 0;
        a[r * n + last] = 1;
    }
    return a;
}

static dpmf_workload *rows_of(int64_t rows, int64_t n, const double *a) {
    dpmf_workload *w = NULL;
    check_ok(dpmf_workload_create(n, &(dpmf_workload_options){.rows = rows, .matrix = a}, &w));
    return w;
}

static void test_errors_of_fifty_matrices_of_any_shape_are_those_of_dense_algebra(void **state) {
    uint64_t seed = 11;
    double largest = 0;
    (void)state;
    for (int trial = 0; trial < 50; trial++) {
        const int64_t n = 1 + (int64_t)(20 * (check_random(&seed) + 1)),
                      rows = 1 + (int64_t)(30 * (check_random(&seed) + 1));
        double *a = random_rows(rows, n, &seed), *found = calloc((size_t)n, sizeof *found),
               *want = calloc((size_t)n, sizeof *want);
        dpmf_workload *w = rows_of(rows, n, a);
        dpmf_strategy *s = strategy_of(trial % (FAMILIES + 1), n, &seed);
        double *inverse = check_strategy_inverse(s), total = 0, mine = 0;
        const int64_t seeds = dpmf_strategy_get(s).rows;
        dpmf_evaluation e = {0};
        for (int64_t r = 0; r < rows; r++) {
            int64_t last = n - 1;
            while (a[r * n + last] == 0)
                last--;
            for (int64_t j = 0; j < seeds; j++) {
                double b = 0;
                for (int64_t u = 0; u < n; u++)
                    b += a[r * n + u] * inverse[u * seeds + j];
                want[last] += b * b;
                total += b * b;
            }
        }
        check_ok(dpmf_error_compute(w, s, NULL, found));
        check_ok(dpmf_evaluate(w, NULL, s, NULL, &e, NULL));
        for (int64_t t = 0; t < n; t++) {
            check_near(found[t] * found[t], want[t], 1e-11);
            mine += found[t] * found[t];
        }
        largest = fmax(largest, fabs(mine / total - 1));
        check_near(e.total_squared_loss / (total * e.sensitivity.value * e.sensitivity.value), 1, 1e-12);
        assert_true(e.lower_bound.rms_loss <= e.rms_loss && e.lower_bound.max_loss <= e.max_loss);
        assert_int_equal(dpmf_workload_get(w).rows, rows);
        free(inverse);
        free(a);
        free(found);
        free(want);
        dpmf_workload_free(w);
        dpmf_strategy_free(s);
    }
    printf("rows: largest deviation of a sum of squares %.2g\n", largest);
}

/* R'R = sum of weighted A'A + added^2 I. */
static void test_the_reduced_workload_has_the_same_products(void **state) {
    uint64_t seed = 3;
    (void)state;
    for (int trial = 0; trial < 30; trial++) {
        const int64_t n = 3 + trial % 9, rows = 1 + trial;
        double *a = random_rows(rows, n, &seed), weights[12], m[144] = {0}, added = 0;
        dpmf_workload *part[2] = {rows_of(rows, n, a), workload_of("momentum:0.5", n)}, *w = NULL, *r = NULL;
        const double scale[2] = {2, trial % 3 == 0 ? 1e-100 : 0.7};
        for (int64_t t = 0; t < n; t++)
            weights[t] = trial % 4 == 0 && t % 2 == 0 ? 0 : 1 + check_random(&seed) / 2;
        check_ok(dpmf_workload_create(
            n, &(dpmf_workload_options){.parts = 2, .part = (const dpmf_workload *const *)part, .part_weights = scale},
            &w));
        check_ok(workload_reduce(w, weights, 1e-8, &r, &added));
        double *momentum = check_workload_matrix(part[1]), *reduced = check_workload_matrix(r), norm = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double want = i == j ? added * added : 0, found = 0;
                for (int64_t row = 0; row < rows; row++) {
                    int64_t last = n - 1;
                    while (a[row * n + last] == 0)
                        last--;
                    want += scale[0] * weights[last] * a[row * n + i] * a[row * n + j];
                }
                for (int64_t t = 0; t < n; t++) {
                    want += scale[1] * weights[t] * momentum[t * n + i] * momentum[t * n + j];
                    found += reduced[t * n + i] * reduced[t * n + j];
                }
                m[i * n + j] = fabs(found - want);
                norm = fmax(norm, fabs(want));
            }
        for (int64_t i = 0; i < n * n; i++)
            assert_true(m[i] <= 1e-13 * norm);
        free(a);
        free(momentum);
        free(reduced);
        for (int i = 0; i < 2; i++)
            dpmf_workload_free(part[i]);
        dpmf_workload_free(w);
        dpmf_workload_free(r);
    }
}

static void test_rows_of_a_matrix_are_released_with_their_last_column(void **state) {
    const double a[] = {0, 0, 2, 1, 0, 0, 1, 1, 1, 3, 0, 0}; /* rows of 3 columns: steps 2, 0, 2, 0 */
    double found[3];
    dpmf_workload *w = rows_of(4, 3, a), *prefix = workload_of("prefix", 3);
    dpmf_strategy *s = NULL;
    (void)state;
    check_ok(dpmf_strategy_create("identity", prefix, NULL, &s));
    check_ok(dpmf_error_compute(w, s, NULL, found));
    check_near(found[0], sqrt(10), 1e-15);
    check_near(found[1], 0, 0);
    check_near(found[2], sqrt(7), 1e-15);
    assert_string_equal(dpmf_workload_get(w).text, "rows");
    assert_int_equal(w->width, 2);
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_workload_apply(w, found, found));
    check_message("4 answers for 3 steps");
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_workload_solve(w, found, found));
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_strategy_create("workload", w, NULL, &(dpmf_strategy *){NULL}));
    dpmf_strategy_free(s);
    dpmf_workload_free(w);
    dpmf_workload_free(prefix);
}

static void test_mechanisms_for_sums_and_rows_come_back_from_their_file(void **state) {
    uint64_t seed = 5;
    double *a = random_rows(31, STEPS, &seed), rates[STEPS];
    dpmf_workload *rows = rows_of(31, STEPS, a), *scheduled = NULL, *mixed = NULL;
    (void)state;
    for (int t = 0; t < STEPS; t++)
        rates[t] = 1 / (double)(t + 2);
    check_ok(dpmf_workload_create(STEPS, &(dpmf_workload_options){.learning_rate = rates}, &scheduled));
    const dpmf_workload *part[] = {rows, scheduled};
    check_ok(dpmf_workload_create(STEPS, &(dpmf_workload_options){.parts = 2, .part = part}, &mixed));
    dpmf_workload *list[] = {workload_of("prefix + 0.3*window:4 + 2*decay:0.5,linear:0.1", STEPS), rows, mixed};
    for (int i = 0; i < 3; i++) {
        dpmf_strategy *s = strategy_of(1, STEPS, &seed);
        dpmf_mechanism *m = NULL, *back = NULL;
        uint8_t *bytes = NULL;
        size_t size = 0;
        check_ok(dpmf_mechanism_create(list[i], NULL, s, NULL, &m));
        check_ok(dpmf_mechanism_encode(m, &bytes, &size));
        check_ok(dpmf_mechanism_decode(bytes, size, &back));
        assert_true(workload_equal(list[i], dpmf_mechanism_get(back).workload));
        assert_string_equal(dpmf_workload_get(dpmf_mechanism_get(back).workload).text, dpmf_workload_get(list[i]).text);
        assert_string_equal(dpmf_mechanism_get(back).digest, dpmf_mechanism_get(m).digest);
        assert_true(dpmf_mechanism_get(m).response != 0);
        dpmf_bytes_free(bytes);
        dpmf_mechanism_free(m);
        dpmf_mechanism_free(back);
        dpmf_strategy_free(s);
    }
    free(a);
    dpmf_workload_free(list[0]);
    dpmf_workload_free(scheduled);
    dpmf_workload_free(rows);
    dpmf_workload_free(mixed);
}

static void test_the_first_steps_of_a_sum_are_the_sum_of_the_first_steps(void **state) {
    const double a[] = {1, 0, 0, 0, 2, 1, 0, 0, 1, 1, 1, 1};
    dpmf_workload *sum = workload_of("prefix + 0.3*decay:0.5", STEPS),
                  *wanted = workload_of("prefix + 0.3*decay:0.5", 9);
    dpmf_workload *rows = rows_of(3, 4, a), *head = NULL;
    (void)state;
    check_ok(workload_head(sum, 9, &head));
    assert_true(workload_equal(head, wanted));
    dpmf_workload_free(head);
    check_ok(workload_head(rows, 2, &head)); /* the two rows that are released by then: a triangular matrix */
    assert_int_equal(head->steps, 2);
    assert_string_equal(dpmf_workload_get(head).text, "file");
    dpmf_workload_free(head);
    dpmf_workload_free(sum);
    dpmf_workload_free(wanted);
    dpmf_workload_free(rows);
}

static void test_wrong_sums_and_matrices_are_refused(void **state) {
    static const char *const BAD[] = {
        "prefix + ",  "prefix +  + prefix", "0*prefix + prefix", "-1*prefix + mean", "nan*prefix",
        "x*prefix",   "prefix+identity",    "prefix + rows",     "1e200*prefix",     "inf*mean + prefix",
        "2*3*prefix", " + prefix",          "prefix + file",     "+ prefix"};
    double a[6] = {1, 2, 3, 0, 0, 0};
    dpmf_workload *w = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_parse(BAD[i], STEPS, &w));
    check_fails(DPMF_ERROR_ARGUMENT,
                dpmf_workload_parse("mean + mean + mean + mean + mean + mean + mean + mean + mean", 3, &w));
    check_message("accepted 1 to 8");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create(3, &(dpmf_workload_options){.rows = 2, .matrix = a}, &w));
    check_message("row 1 of the matrix is zero");
    a[5] = NAN;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create(3, &(dpmf_workload_options){.rows = 2, .matrix = a}, &w));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create(3, &(dpmf_workload_options){.rows = 0, .matrix = a}, &w));
    check_fails(DPMF_ERROR_ARGUMENT,
                dpmf_workload_create(3, &(dpmf_workload_options){.rows = 1, .matrix = a, .decay = 0.5}, &w));
    dpmf_workload *sum = workload_of("prefix + mean", 3), *other = workload_of("prefix", 4);
    const dpmf_workload *nested[] = {sum, sum}, *lengths[] = {other, other}, *none[] = {sum, NULL};
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create(3, &(dpmf_workload_options){.parts = 2, .part = nested}, &w));
    check_fails(DPMF_ERROR_ARGUMENT,
                dpmf_workload_create(3, &(dpmf_workload_options){.parts = 2, .part = lengths}, &w));
    check_fails(DPMF_ERROR_ARGUMENT,
                dpmf_workload_create(3, &(dpmf_workload_options){.parts = 2, .part = none + 1}, &w));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create(3, &(dpmf_workload_options){.parts = 0, .part = nested}, &w));
    assert_null(w);
    dpmf_workload_free(sum);
    dpmf_workload_free(other);
}

static void test_any_allocation_of_a_stack_may_fail(void **state) {
    uint64_t seed = 1;
    double *a = random_rows(9, 6, &seed), added = 0;
    dpmf_workload *w = NULL, *r = NULL;
    (void)state;
    FAIL_EACH(dpmf_workload_parse("prefix + 0.3*window:2 + cooldown:0.5:0.1", 6, &w));
    FAIL_EACH(workload_reduce(w, NULL, 1e-8, &r, &added));
    dpmf_workload_free(r);
    dpmf_workload_free(w);
    w = NULL;
    FAIL_EACH(dpmf_workload_create(6, &(dpmf_workload_options){.rows = 9, .matrix = a}, &w));
    dpmf_workload_free(w);
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_squared_errors_of_a_sum_are_the_weighted_sums_of_its_parts),
        cmocka_unit_test(test_a_stack_of_one_workload_is_that_workload),
        cmocka_unit_test(test_errors_of_fifty_matrices_of_any_shape_are_those_of_dense_algebra),
        cmocka_unit_test(test_the_reduced_workload_has_the_same_products),
        cmocka_unit_test(test_rows_of_a_matrix_are_released_with_their_last_column),
        cmocka_unit_test(test_mechanisms_for_sums_and_rows_come_back_from_their_file),
        cmocka_unit_test(test_the_first_steps_of_a_sum_are_the_sum_of_the_first_steps),
        cmocka_unit_test(test_wrong_sums_and_matrices_are_refused),
        cmocka_unit_test(test_any_allocation_of_a_stack_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
