/* SPDX-License-Identifier: Apache-2.0 */
/*
 * W of few taps: the strategy against plain arithmetic; the gradient of its search against differences; what the search says of
 * its loss against the general routes and brute force; its losses against the banded inverse and the certified bound.
 */
#include "support/check.h"

#include "families/taps/taps.h"
#include "optimize/optimize.h"
#include "support/failing_allocator.h"
#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 60, B = 20, K = 3, TAPS = 4 };

static dpmf_strategy *optimize(const char *family, int64_t n, int64_t k, int64_t taps, const char *workload,
                               dpmf_optimization *found) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_strategy *s = NULL;
    o.bands = taps;
    check_ok(dpmf_workload_parse(workload, n, &a));
    check_ok(
        dpmf_participation_create(k == 1 ? DPMF_PARTICIPATION_SINGLE : DPMF_PARTICIPATION_CYCLIC, n, k, n / k, &p));
    check_ok(dpmf_optimize(family, a, p, &o, &s, found));
    dpmf_participation_free(p);
    dpmf_workload_free(a);
    return s;
}

static dpmf_evaluation evaluate(const dpmf_strategy *s, int64_t k, const char *workload) {
    const int64_t n = dpmf_strategy_get(s).steps;
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_evaluation e;
    check_ok(dpmf_workload_parse(workload, n, &a));
    check_ok(
        dpmf_participation_create(k == 1 ? DPMF_PARTICIPATION_SINGLE : DPMF_PARTICIPATION_CYCLIC, n, k, n / k, &p));
    check_ok(dpmf_evaluate(a, p, s, NULL, &e, NULL));
    dpmf_participation_free(p);
    dpmf_workload_free(a);
    return e;
}

static void test_taps_are_the_entries_of_the_inverse(void **unused) {
    const int64_t lag[TAPS] = {0, 1, 5, B};
    double weight[N * TAPS] = {0};
    uint64_t x = 17;
    (void)unused;
    for (int by_step = 0; by_step < 2; by_step++) {
        dpmf_strategy *s = NULL;
        for (int t = 0; t < N; t++)
            for (int i = 0; i < TAPS; i++)
                weight[t * TAPS + i] = lag[i] > t && by_step ? 0 : i == 0 ? 1.2 : -check_random(&x) / 4;
        check_ok(taps_create(N, TAPS, lag, by_step ? N : 1, weight, &s));
        double *w = check_strategy_inverse(s);
        for (int64_t t = 0; t < N; t++)
            for (int64_t u = 0; u < N; u++) {
                double want = 0;
                for (int i = 0; i < TAPS; i++)
                    if (t - u == lag[i]) want = weight[(by_step ? t : 0) * TAPS + i];
                check_near(w[t * N + u], want, 1e-14);
            }
        free(w);
        assert_int_equal(dpmf_strategy_get(s).buffers, 0);
        check_near(dpmf_strategy_get(s).normals, TAPS - (0.0 + 1 + 5 + B) / N, 1e-12);
        dpmf_strategy_free(s);
    }
}

static void test_taps_out_of_range_are_refused(void **unused) {
    const double weight[4] = {1, 0.5, 0.25, 0.125}, none[2] = {0, 1}, nan_[2] = {1, NAN};
    const int64_t good[2] = {0, 3}, late[2] = {1, 3}, equal[3] = {0, 3, 3}, far[2] = {0, 8};
    dpmf_strategy *s = NULL;
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(8, 2, late, 1, weight, &s));
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(8, 3, equal, 1, weight, &s));
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(8, 2, far, 1, weight, &s));
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(8, 2, good, 2, weight, &s));
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(8, 0, good, 1, weight, &s));
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(8, 2, good, 1, none, &s));
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(8, 2, good, 1, nan_, &s));
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(2, 2, good, 2, weight, &s));
    assert_null(s);
    FAIL_EACH(taps_create(8, 2, good, 1, weight, &s));
    dpmf_strategy_free(s);
}

/* The gradient against central differences, for several participations and one. */
static void test_the_gradient_is_that_of_the_loss(void **unused) {
    static const int64_t periods[] = {B, N, 25};
    const int64_t lag[TAPS] = {0, 1, 5, B};
    (void)unused;
    for (size_t c = 0; c < sizeof periods / sizeof *periods; c++) {
        dpmf_workload *a = NULL;
        int64_t count = 0;
        double f = 0, low = 0, high = 0, *gram = calloc(N * N, sizeof *gram);
        check_ok(dpmf_workload_parse("momentum:0.5", N, &a));
        for (int u = 0; u < N; u++) {
            gram[u * N + u] = 1;
            check_ok(dpmf_workload_apply(a, gram + u * N, gram + u * N));
            check_ok(workload_apply_transpose(a, gram + u * N, gram + u * N));
        }
        const taps_problem p = {.workload = a, .n = N, .b = periods[c], .k = (N - 1) / periods[c] + 1, .gram = gram};
        check_ok(taps_tune_value(&p, TAPS, lag, &count, NULL, NULL, NULL));
        double *x = calloc((size_t)count, sizeof *x), *g = calloc((size_t)count, sizeof *g);
        double *unread = calloc((size_t)count, sizeof *x);
        uint64_t seed = 5 + c;
        for (int64_t i = 0; i < count; i++)
            x[i] = i % TAPS == 0 ? 1 + check_random(&seed) / 10 : -check_random(&seed) / 4;
        check_ok(taps_tune_value(&p, TAPS, lag, &count, x, &f, g));
        for (int64_t i = 0; i < count; i++) {
            const double kept = x[i], step = 1e-5;
            x[i] = kept + step;
            check_ok(taps_tune_value(&p, TAPS, lag, &count, x, &high, unread));
            x[i] = kept - step;
            check_ok(taps_tune_value(&p, TAPS, lag, &count, x, &low, unread));
            x[i] = kept;
            if (fabs((high - low) / (2 * step) - g[i]) > 1e-7)
                fail_msg("unknown %d: %.12g by differences, %.12g", (int)i, (high - low) / (2 * step), g[i]);
        }
        free(x);
        free(g);
        free(unread);
        free(gram);
        dpmf_workload_free(a);
    }
}

/* Better than contiguous taps of the same number, never below the certified bound; sensitivity as scaled: at most 1. */
static void test_optimized_taps_beat_contiguous_ones_and_keep_to_the_bound(void **unused) {
    static const struct {
        int64_t n, k, taps;
        const char *workload;
        double gain; /* of the loss over that of bisr, at least */
    } cases[] = {{120, 4, 2, "prefix", 0.99},
                 {120, 4, 4, "prefix", 0.95},
                 {100, 1, 4, "prefix", 0.97},
                 {60, 3, 3, "momentum:0.9", 0.999}};
    (void)unused;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        dpmf_optimization found;
        dpmf_strategy *s = optimize("taps", cases[c].n, cases[c].k, cases[c].taps, cases[c].workload, &found);
        dpmf_strategy *other = optimize("bisr", cases[c].n, cases[c].k, cases[c].taps, cases[c].workload, &found);
        const dpmf_evaluation e = evaluate(s, cases[c].k, cases[c].workload),
                              o = evaluate(other, cases[c].k, cases[c].workload);
        assert_true(e.rms_loss < cases[c].gain * o.rms_loss);
        assert_true(e.lower_bound.rms_loss > 0 && e.rms_loss >= e.lower_bound.rms_loss);
        assert_true(e.sensitivity.value <= 1 + 1e-9);
        assert_true(e.sensitivity.kind == DPMF_EXACT || e.sensitivity.kind == DPMF_UPPER_BOUND);
        assert_true(dpmf_strategy_get(s).normals <= (double)cases[c].taps);
        dpmf_strategy_free(s);
        dpmf_strategy_free(other);
    }
}

/* No contribution of a unit moves C g by more than the sensitivity: all signs of every pattern, by products with C. */
static void test_the_sensitivity_holds_against_all_signs(void **unused) {
    dpmf_optimization found;
    dpmf_strategy *s = optimize("taps", N, K, 3, "prefix", &found);
    const double claimed = evaluate(s, K, "prefix").sensitivity.value;
    double largest = 0;
    (void)unused;
    for (int p = 0; p < N / K; p++)
        for (int signs = 0; signs < 1 << K; signs++) {
            double x[N] = {0}, y[N], square = 0;
            for (int e = 0; e < K; e++)
                x[p + e * (N / K)] = (signs >> e & 1) != 0 ? 1 : -1;
            check_ok(dpmf_strategy_apply(s, x, y));
            for (int t = 0; t < N; t++)
                square += y[t] * y[t];
            largest = fmax(largest, sqrt(square));
        }
    assert_true(largest <= claimed * (1 + 1e-12));
    assert_true(largest >= 0.9 * claimed);
    dpmf_strategy_free(s);
}

/* The squared norm of C x where x has these steps and signs; `turn`: of C (x, x'), with step k of x turned by k x turn in the plane. */
static double moved(const dpmf_strategy *s, int64_t n, unsigned steps, unsigned signs, double turn) {
    double square = 0;
    for (int part = 0; part < 2; part++) {
        double x[32] = {0}, y[32], angle = part == 0 ? 0 : -1.5707963267948966;
        for (int64_t t = 0; t < n; t++)
            if ((steps >> t & 1) != 0) {
                x[t] = ((signs >> t & 1) != 0 ? 1 : -1) * cos(angle);
                angle += turn;
            }
        check_ok(dpmf_strategy_apply(s, x, y));
        for (int64_t t = 0; t < n; t++)
            square += y[t] * y[t];
    }
    return square;
}

/* Taps of any sign, which no search makes, and separations that are no period: every pattern with all its signs, on a line and in a plane. */
static void test_the_sensitivity_of_any_taps_holds_against_every_pattern(void **unused) {
    enum { SHORT = 10 };
    const int64_t lag[3] = {0, 1, 4};
    uint64_t seed = 3;
    (void)unused;
    for (int c = 0; c < 48; c++) {
        const int by_step = c % 2, uses = 1 + c / 2 % 4, apart = 1 + c / 8 % 3;
        double weight[SHORT * 3] = {0}, largest = 0;
        dpmf_strategy *s = NULL;
        dpmf_workload *a = NULL;
        dpmf_participation *p = NULL;
        dpmf_evaluation e;
        for (int t = 0; t < (by_step ? SHORT : 1); t++)
            for (int i = 0; i < 3; i++)
                weight[t * 3 + i] = by_step && lag[i] > t ? 0
                                    : i == 0              ? 1 + check_random(&seed) / 2
                                                          : check_random(&seed);
        check_ok(taps_create(SHORT, 3, lag, by_step ? SHORT : 1, weight, &s));
        check_ok(dpmf_workload_parse("prefix", SHORT, &a));
        check_ok(dpmf_participation_create(DPMF_PARTICIPATION_MIN_SEPARATION, SHORT, uses, apart, &p));
        check_ok(dpmf_evaluate(a, p, s, NULL, &e, NULL));
        assert_true(e.sensitivity.kind == DPMF_EXACT || e.sensitivity.kind == DPMF_UPPER_BOUND);
        for (unsigned steps = 1; steps < 1u << SHORT; steps++) {
            int used = 0, last = -SHORT, allowed = 1;
            for (int t = 0; t < SHORT; t++)
                if ((steps >> t & 1) != 0) {
                    allowed = allowed && t - last >= apart;
                    last = t;
                    used++;
                }
            if (!allowed || used > uses) continue;
            for (unsigned signs = steps; signs > 0; signs = (signs - 1) & steps)
                for (int turns = 0; turns < 4; turns++) /* 0 to 120 degrees */
                    largest = fmax(largest, moved(s, SHORT, steps, signs, turns * 0.6981317007977318));
        }
        if (!(sqrt(largest) <= e.sensitivity.value * (1 + 1e-12)))
            fail_msg("case %d: sensitivity %.17g, a pattern moves %.17g", c, e.sensitivity.value, sqrt(largest));
        dpmf_participation_free(p);
        dpmf_workload_free(a);
        dpmf_strategy_free(s);
    }
}

/* Where C overflows there is no sensitivity, and no answer. */
static void test_taps_whose_matrix_overflows_are_refused(void **unused) {
    const int64_t lag[2] = {0, 1};
    double weight[N * 2] = {0};
    dpmf_strategy *s = NULL;
    dpmf_workload *a = NULL;
    dpmf_evaluation e;
    (void)unused;
    for (int t = 0; t < N; t++)
        weight[2 * t] = 1, weight[2 * t + 1] = t == 0 ? 0 : t % 2 ? 1e20 : -1e20;
    check_ok(dpmf_workload_parse("prefix", N, &a));
    check_ok(taps_create(N, 2, lag, N, weight, &s));
    check_fails(DPMF_ERROR_NUMERICAL, dpmf_evaluate(a, NULL, s, NULL, &e, NULL));
    dpmf_strategy_free(s);
    s = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, taps_create(N, 2, lag, 1, weight + 2, &s));
    assert_null(s);
    dpmf_workload_free(a);
}

static void test_taps_that_are_not_searched_for_are_refused(void **unused) {
    dpmf_workload *a = NULL, *scheduled = NULL;
    dpmf_participation *p = NULL, *one = NULL, *long_one = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    dpmf_strategy *s = NULL;
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", N, &a));
    check_ok(dpmf_workload_parse("cooldown:0.5:0.1", 4096, &scheduled));
    check_ok(dpmf_participation_create(DPMF_PARTICIPATION_MIN_SEPARATION, N, K, B, &p));
    check_ok(dpmf_participation_create(DPMF_PARTICIPATION_SINGLE, N, 1, N, &one));
    check_ok(dpmf_participation_create(DPMF_PARTICIPATION_SINGLE, 4096, 1, 4096, &long_one));
    o.bands = 2;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("taps", a, p, &o, &s, &found));
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("taps", scheduled, long_one, &o, &s, &found));
    o.loss = DPMF_LOSS_MAX;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("taps", a, one, &o, &s, &found));
    o.loss = DPMF_LOSS_RMS;
    o.bands = N;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("taps", a, one, &o, &s, &found));
    assert_null(s);
    dpmf_participation_free(p);
    dpmf_participation_free(one);
    dpmf_participation_free(long_one);
    dpmf_workload_free(a);
    dpmf_workload_free(scheduled);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_taps_are_the_entries_of_the_inverse),
                                       cmocka_unit_test(test_taps_out_of_range_are_refused),
                                       cmocka_unit_test(test_the_gradient_is_that_of_the_loss),
                                       cmocka_unit_test(test_optimized_taps_beat_contiguous_ones_and_keep_to_the_bound),
                                       cmocka_unit_test(test_the_sensitivity_holds_against_all_signs),
                                       cmocka_unit_test(test_the_sensitivity_of_any_taps_holds_against_every_pattern),
                                       cmocka_unit_test(test_taps_whose_matrix_overflows_are_refused),
                                       cmocka_unit_test(test_taps_that_are_not_searched_for_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
