/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the joint sensitivity of contributions and their squares. For strategies of at most six steps, every kind of participation,
 * weight and adjacency, contributions are searched that move both streams further than the figure says: every pattern, random starts and
 * a climb from the best of them. None may succeed, and where the figure is called exact, or is known to be, the search comes near it.
 */
#include "support/sensitivity_cases.h"

#include <math.h>
#include <stdio.h>

enum { STEPS_MAX = 6, DIM = 3, STARTS = 8, CLIMB = 1200 };

typedef struct attack {
    int n, replaced;
    double weight;
    double c[2][STEPS_MAX][STEPS_MAX]; /* columns */
    uint64_t seed;
} attack;

typedef double contributions[2][STEPS_MAX][DIM]; /* x, and y of the other unit */

static void read_columns(attack *a, int which, const dpmf_strategy *s) {
    assert_int_equal(dpmf_strategy_get(s).rows, a->n);
    for (int t = 0; t < a->n; t++)
        check_ok(dpmf_strategy_column(s, t, a->c[which][t]));
}

static void into_ball(double *x) {
    double square = 0;
    for (int i = 0; i < DIM; i++)
        square += x[i] * x[i];
    for (int i = 0; i < DIM && square > 1; i++)
        x[i] /= sqrt(square);
}

/* |C_1 U|^2 + weight |C_2 V|^2 of the steps of `pattern`, straight from the definition. */
static double moved(const attack *a, unsigned pattern, contributions g) {
    double sum = 0;
    for (int which = 0; which < 2; which++)
        for (int row = 0; row < a->n; row++)
            for (int i = 0; i < DIM; i++) {
                double entry = 0;
                for (int t = 0; t < a->n; t++) {
                    double x = g[0][t][i], y = a->replaced ? g[1][t][i] : 0;
                    if (pattern >> t & 1) entry += a->c[which][t][row] * (which == 0 ? x - y : x * x - y * y);
                }
                sum += (which == 0 ? 1 : a->weight) * entry * entry;
            }
    return sum;
}

/* Starts that are worst for some matrices, and random ones. */
static void start(attack *a, int which, contributions g) {
    for (int t = 0; t < STEPS_MAX; t++) {
        double angle = which == 3 ? asin(1) * check_random(&a->seed) : 0;
        for (int who = 0; who < 2; who++) {
            for (int i = 0; i < DIM; i++)
                g[who][t][i] = which > 3 ? check_random(&a->seed) : 0;
            if (which == 0) g[who][t][0] = who == 0 ? 1 : -1;
            if (which == 1) g[who][t][who] = 1;
            if (which == 2) g[who][t][0] = who == 0 ? (t % 2 ? 1 : -1) : (t % 2 ? -1 : 1);
            if (which == 3) { /* a cosine of -1 to 1, and squares that differ as much as they can */
                double own = asin(1) / 2 + (who == 0 ? angle : -angle);
                g[who][t][0] = cos(own);
                g[who][t][1] = sin(own);
            }
            into_ball(g[who][t]);
        }
    }
}

static double climb(attack *a, unsigned pattern, int which) {
    contributions best, tried;
    start(a, which, best);
    double value = moved(a, pattern, best), width = 1;
    for (int i = 0; i < CLIMB; i++) {
        memcpy(tried, best, sizeof best);
        for (int t = 0; t < a->n; t++)
            for (int who = 0; who < 2; who++) {
                for (int j = 0; j < DIM; j++)
                    tried[who][t][j] += width * check_random(&a->seed);
                into_ball(tried[who][t]);
            }
        double found = moved(a, pattern, tried);
        width = found > value ? fmin(1, width * 1.5) : fmax(1e-4, width * 0.97);
        if (found > value) {
            value = found;
            memcpy(best, tried, sizeof best);
        }
    }
    return value;
}

/* Is this set of steps, as bits, allowed? Written without the library. */
static int allowed(dpmf_participation_info p, unsigned pattern, int n) {
    int picks = 0, before = -1;
    for (int t = 0; t < n; t++) {
        if (!(pattern >> t & 1)) continue;
        if (before >= 0) {
            if (p.kind == DPMF_PARTICIPATION_SINGLE) return 0;
            if (p.kind == DPMF_PARTICIPATION_CYCLIC && (t - before) % p.separation != 0) return 0;
            if (p.kind == DPMF_PARTICIPATION_MIN_SEPARATION && t - before < p.separation) return 0;
            if (p.kind == DPMF_PARTICIPATION_SHUFFLED && t / p.separation == before / p.separation) return 0;
        }
        picks++;
        before = t;
    }
    return picks > 0 && (p.kind == DPMF_PARTICIPATION_SINGLE || picks <= p.count);
}

static double reached(attack *a, const dpmf_participation *p, int starts) {
    double best = 0;
    for (unsigned pattern = 1; pattern < 1u << a->n; pattern++) {
        if (!allowed(dpmf_participation_get(p), pattern, a->n)) continue;
        for (int i = 0; i < starts; i++)
            best = fmax(best, climb(a, pattern, i));
    }
    return best;
}

static dpmf_sensitivity joint(const dpmf_strategy *s, const dpmf_strategy *second, double weight,
                              const dpmf_participation *p, int replaced) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity found = {0};
    o.adjacency = replaced ? DPMF_ADJACENCY_REPLACE_ONE : DPMF_ADJACENCY_ZERO_OUT;
    o.squares = weight;
    o.squares_of = second;
    check_ok(dpmf_sensitivity_compute(s, p, &o, &found));
    assert_int_equal(found.of, DPMF_SENSITIVITY_PARTICIPATION);
    return found;
}

/* The attack's best over the figure; above 1 is a failure, and far below 1 one for a figure that is exact. */
static double compare(const dpmf_strategy *s, const dpmf_strategy *second, const char *text, double weight,
                      int replaced, uint64_t seed) {
    dpmf_participation *p = NULL;
    attack a = {.n = (int)dpmf_strategy_get(s).steps, .replaced = replaced, .weight = weight, .seed = seed};
    check_ok(dpmf_participation_parse(text, a.n, &p));
    read_columns(&a, 0, s);
    read_columns(&a, 1, second == NULL ? s : second);
    const dpmf_sensitivity found = joint(s, second, weight, p, replaced);
    const double ratio = sqrt(reached(&a, p, STARTS)) / found.value;
    if (ratio > 1) fail_msg("%s, weight %g: the attack moves %.17g of the joint sensitivity", text, weight, ratio);
    if (found.kind == DPMF_EXACT && ratio < 0.95)
        fail_msg("%s, weight %g: exact, and only %g is reached", text, weight, ratio);
    dpmf_participation_free(p);
    return ratio;
}

static const double WEIGHTS[] = {0.1, 0.5, 0.9, 4};
static const char *const PARTICIPATIONS[] = {"single", "cyclic:2,2", "cyclic:3,2", "min-sep:2,2", "shuffled:2,3"};

static void test_one_matrix_of_any_signs(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        const char *text = PARTICIPATIONS[i % 5];
        const int n = i % 5 == 1 ? 4 : 6;
        dpmf_strategy *s = random_dense(n, i % 2 ? 0 : 3, 100 + (uint64_t)i);
        compare(s, NULL, text, WEIGHTS[i / 5], i % 2, 7 + (uint64_t)i);
        compare(s, NULL, text, WEIGHTS[i / 5], 1 - i % 2, 70 + (uint64_t)i);
        dpmf_strategy_free(s);
    }
}

static void test_two_matrices_for_two_moments(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        const char *text = PARTICIPATIONS[i % 5];
        const int n = i % 5 == 1 ? 4 : 6;
        dpmf_strategy *s = random_dense(n, 0, 200 + (uint64_t)i), *second = random_dense(n, 2, 300 + (uint64_t)i);
        compare(s, second, text, WEIGHTS[i / 5], i % 2, 17 + (uint64_t)i);
        compare(s, second, text, WEIGHTS[i / 5], 1 - i % 2, 170 + (uint64_t)i);
        dpmf_strategy_free(s);
        dpmf_strategy_free(second);
    }
}

/* The figures of non-negative matrices are exact, and the attack finds them. */
static void test_non_negative_matrices_are_exact(void **state) {
    (void)state;
    dpmf_strategy *s = family("toeplitz", 6, 1, 0);
    for (int i = 0; i < 4; i++)
        for (int replaced = 0; replaced < 2; replaced++) {
            dpmf_participation *p = NULL;
            check_ok(dpmf_participation_parse(PARTICIPATIONS[2 + i % 2], 6, &p));
            const double alone = compute(s, PARTICIPATIONS[2 + i % 2], DPMF_BOUND_AUTO).value, w = WEIGHTS[i];
            const dpmf_sensitivity found = joint(s, NULL, w, p, replaced);
            const double factor = !replaced ? 1 + w : w <= 0.5 ? 4 : 2 + 2 * w + 1 / (2 * w);
            assert_int_equal(found.kind, DPMF_EXACT);
            check_near(found.value / alone, sqrt(factor), 1e-14);
            assert_true(found.value >= alone * sqrt(factor) * (1 - 1e-16));
            assert_true(compare(s, NULL, PARTICIPATIONS[2 + i % 2], w, replaced, 5) > 0.95);
            dpmf_participation_free(p);
        }
    dpmf_strategy_free(s);
}

/* Two non-negative matrices with proportional columns are one matrix: the sums of rows then lose nothing. */
static void test_rows_lose_nothing_for_proportional_matrices(void **state) {
    (void)state;
    double matrix[36] = {0}, twice[36] = {0};
    dpmf_participation *p = NULL;
    for (int t = 0; t < 6; t++)
        for (int u = 0; u <= t; u++) {
            matrix[t * 6 + u] = 1.0 / (1 + t - u);
            twice[t * 6 + u] = 2 * matrix[t * 6 + u];
        }
    dpmf_strategy *s = dense(6, matrix), *second = dense(6, twice);
    check_ok(dpmf_participation_parse("cyclic:2,3", 6, &p));
    for (int i = 0; i < 4; i++)
        for (int replaced = 0; replaced < 2; replaced++)
            check_near(joint(s, second, WEIGHTS[i] / 4, p, replaced).value /
                           joint(s, NULL, WEIGHTS[i], p, replaced).value,
                       1, 1e-12);
    dpmf_participation_free(p);
    dpmf_strategy_free(s);
    dpmf_strategy_free(second);
}

static dpmf_status status_with(const dpmf_strategy *s, dpmf_evaluate_options o) {
    dpmf_sensitivity found = {.value = -7};
    dpmf_status status = dpmf_sensitivity_compute(s, NULL, &o, &found);
    assert_true((found.value == -7) == (status != DPMF_OK));
    return status;
}

static void test_what_is_refused(void **state) {
    (void)state;
    static const double bad[] = {-1, 2e9, NAN};
    dpmf_strategy *s = family("toeplitz", 6, 1, 0), *longer = family("toeplitz", 7, 1, 0);
    dpmf_workload *a = NULL;
    dpmf_evaluation found = {0};
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    for (int i = 0; i < 3; i++) {
        o.squares = bad[i];
        assert_int_equal(status_with(s, o), DPMF_ERROR_ARGUMENT);
    }
    o.squares = 1;
    assert_int_equal(status_with(s, o), DPMF_OK);
    check_ok(dpmf_workload_parse("prefix", 6, &a));
    assert_int_equal(dpmf_evaluate(a, NULL, s, &o, &found, NULL), DPMF_ERROR_ARGUMENT);
    o.squares_of = longer;
    assert_int_equal(status_with(s, o), DPMF_ERROR_ARGUMENT);
    o.squares_of = NULL;
    o.columns = 1;
    assert_int_equal(status_with(s, o), DPMF_ERROR_UNSUPPORTED);
    o.columns = 0;
    o.of = DPMF_SENSITIVITY_COLUMN;
    assert_int_equal(status_with(s, o), DPMF_ERROR_UNSUPPORTED);
    dpmf_workload_free(a);
    dpmf_strategy_free(s);
    dpmf_strategy_free(longer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_matrix_of_any_signs),
        cmocka_unit_test(test_two_matrices_for_two_moments),
        cmocka_unit_test(test_non_negative_matrices_are_exact),
        cmocka_unit_test(test_rows_lose_nothing_for_proportional_matrices),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
