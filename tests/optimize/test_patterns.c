/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimum under min-separation and shuffled participation, and coefficients of any sign. Reference values of the
 * optimum: tests/python/reference_patterns.py, which lists all patterns and solves the same dual with other code.
 */
#include "support/check.h"

#include "optimum/optimum.h"
#include "sensitivity/sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer {
    dpmf_optimization how;
    dpmf_evaluation figures;
} answer;

static answer optimum(const char *family, int64_t n, const char *workload, const char *participation,
                      const dpmf_optimize_options *options) {
    answer a;
    dpmf_workload *w = NULL;
    dpmf_participation *p = NULL;
    dpmf_strategy *s = NULL;
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    e.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_workload_parse(workload, n, &w));
    check_ok(dpmf_participation_parse(participation, n, &p));
    check_ok(dpmf_optimize(family, w, p, options, &s, &a.how));
    check_ok(dpmf_evaluate(w, p, s, &e, &a.figures, NULL));
    dpmf_strategy_free(s);
    dpmf_participation_free(p);
    dpmf_workload_free(w);
    return a;
}

static void test_the_optimum_over_patterns_is_that_of_the_reference(void **unused) {
    static const struct {
        int64_t n;
        const char *workload, *participation;
        double value;
    } cases[] = {{10, "prefix", "minsep:2,2", 2.511755},
                 {10, "momentum:0.9", "minsep:2,2", 8.314348},
                 {9, "prefix", "minsep:3,3", 2.811739},
                 {9, "prefix", "shuffled:3,3", 2.944271}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        answer a = optimum("dense", cases[i].n, cases[i].workload, cases[i].participation, NULL);
        assert_int_equal(a.how.outcome, DPMF_CONVERGED);
        check_near(a.figures.rms_loss / cases[i].value, 1, 2e-6);
        assert_true(a.how.optimum_lower <= cases[i].value * (1 + 5e-7));
        assert_true(a.how.optimum_lower >= cases[i].value * (1 - 2e-6));
        assert_true(a.figures.rms_loss <= a.how.optimum_upper * (1 + 1e-9));
        assert_true(strncmp(a.how.scope, "all mechanisms", 14) == 0);
    }
}

/* The bound is below the loss of every family, and the optimum no worse than any; the max loss too. */
static void test_no_family_beats_the_optimum_over_patterns(void **unused) {
    static const char *const families[] = {"toeplitz", "blt", "banded", "bisr"};
    static const char *const workloads[] = {"prefix", "momentum:0.9"};
    (void)unused;
    for (int w = 0; w < 2; w++)
        for (int l = 0; l < 2; l++) {
            dpmf_optimize_options o = dpmf_optimize_options_defaults();
            o.loss = (dpmf_loss)l;
            o.tolerance = 1e-3;
            answer dense = optimum("dense", 14, workloads[w], "minsep:2,3", &o);
            double best = l ? dense.figures.max_loss : dense.figures.rms_loss;
            assert_true(dense.how.optimum_lower <= best * (1 + 1e-12));
            for (int f = 0; f < 4; f++) {
                dpmf_optimize_options part = dpmf_optimize_options_defaults();
                part.loss = (dpmf_loss)l;
                part.bands = f >= 2 ? 3 : 0;
                part.buffers = f == 1 ? 2 : 0;
                answer other = optimum(families[f], 14, workloads[w], "minsep:2,3", &part);
                double loss = l ? other.figures.max_loss : other.figures.rms_loss;
                assert_true(loss >= dense.how.optimum_lower);
                assert_true(best <= loss * (1 + 1e-6));
            }
        }
}

/* Above the limit: no worse than Toeplitz, which is better than banded where units can leave gaps. */
static void test_above_the_limit_the_best_that_streams_is_taken(void **unused) {
    const int64_t n = PATTERNS_STEPS_MAX + 20;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    (void)unused;
    answer dense = optimum("dense", n, "prefix", "minsep:2,52", &o),
           whole = optimum("toeplitz", n, "prefix", "minsep:2,52", &o);
    o.bands = 52;
    answer banded = optimum("banded", n, "prefix", "minsep:2,52", &o);
    assert_true(whole.figures.rms_loss < 0.95 * banded.figures.rms_loss);
    assert_true(dense.figures.rms_loss <= whole.figures.rms_loss * (1 + 1e-9));
    assert_true(dense.how.scope == NULL && dense.how.searched != NULL);
}

/* f of a pattern of two, three steps over all patterns, by brute force, against the branch and bound. */
static void test_the_worst_patterns_are_found(void **unused) {
    enum { N = 12 };
    static const char *const participations[] = {"minsep:3,3", "minsep:2,2", "shuffled:3,4", "minsep:4,3"};
    double x[N * N];
    (void)unused;
    for (int t = 0; t < N; t++)
        for (int u = 0; u < N; u++)
            x[t * N + u] = t == u ? 1 + 0.3 * sin(7.0 * t) : 0.25 * cos(3.0 * t * u + t + u) / (1 + abs(t - u));
    for (int i = 0; i < 4; i++) {
        dpmf_participation *p = NULL;
        patterns_list few = {0}, many = {0};
        double most = 0, all = 0;
        int whole = 0;
        check_ok(dpmf_participation_parse(participations[i], N, &p));
        check_ok(patterns_list_create(p->count, 4, &few));
        check_ok(patterns_list_create(p->count, 4096, &many));
        check_ok(patterns_find(p, x, 0, &many, &all, &whole)); /* nothing is left out at this level */
        assert_true(whole && many.count > 20 && many.count < 4096);
        assert_true(many.values[0] == all);
        check_ok(patterns_find(p, x, 0.9 * all, &few, &most, &whole));
        assert_true(whole && most == all && few.count >= 1 && few.values[0] == all);
        check_ok(patterns_find(p, x, all, &few, &most, &whole));
        assert_true(few.count == 0 && most == all);
        patterns_list_free(&few);
        patterns_list_free(&many);
        dpmf_participation_free(p);
    }
}

/* Values that a search among positive coefficients ended on, and points of mixed signs that others have found. */
static void test_coefficients_of_any_sign_are_searched(void **unused) {
    static const struct {
        const char *family;
        int64_t n, bands;
        int buffers;
        const char *workload, *participation;
        double known; /* a mechanism of this loss exists */
    } cases[] = {{"bisr", 24, 4, 0, "momentum:0.95", "cyclic:3,8", 21.28316},
                 {"toeplitz", 15, 0, 0, "prefix", "cyclic:3,5", 3.17145},
                 {"blt", 30, 0, 2, "momentum:0.93", "cyclic:3,10", 21.5658},
                 {"blt", 31, 0, 2, "momentum:0.93", "single", 10.7934}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        o.bands = cases[i].bands;
        o.buffers = cases[i].buffers;
        answer a = optimum(cases[i].family, cases[i].n, cases[i].workload, cases[i].participation, &o);
        assert_true(a.figures.rms_loss <= cases[i].known * (1 + 1e-6));
        assert_true(a.figures.rms_loss >= cases[i].known * (1 - 0.02));
        assert_string_equal(a.how.searched, "coefficients of any sign");
    }
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    o.bands = 4;
    answer apart = optimum("bisr", 24, "momentum:0.95", "minsep:3,8", &o);
    assert_string_equal(apart.how.searched, "non-negative coefficients that do not rise");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_optimum_over_patterns_is_that_of_the_reference),
                                       cmocka_unit_test(test_no_family_beats_the_optimum_over_patterns),
                                       cmocka_unit_test(test_above_the_limit_the_best_that_streams_is_taken),
                                       cmocka_unit_test(test_the_worst_patterns_are_found),
                                       cmocka_unit_test(test_coefficients_of_any_sign_are_searched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
