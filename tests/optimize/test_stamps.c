/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stamps of optimized strategies and closed forms (Choquette-Choo et al. 2023, Section 5, Appendix D.4): what is repeated, for
 * which part of the problem it is made, and that the chosen number has the least loss of all that are tried.
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 60 };

static dpmf_participation *participation_of(const char *text, int64_t steps) {
    dpmf_participation *p = NULL;
    check_ok(dpmf_participation_parse(text, steps, &p));
    return p;
}

static double loss_of(const dpmf_workload *a, const dpmf_participation *p, const dpmf_strategy *s, int max) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_evaluation found;
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_evaluate(a, p, s, &o, &found, NULL));
    return max ? found.max_loss : found.rms_loss;
}

static double stamped_loss(const char *family, const dpmf_workload *a, const dpmf_participation *p,
                           const dpmf_optimize_options *o, int64_t *stamps) {
    dpmf_strategy *s = NULL;
    dpmf_optimization found;
    check_ok(dpmf_optimize(family, a, p, o, &s, &found));
    if (stamps != NULL) *stamps = dpmf_strategy_get(s).stamps;
    double loss = loss_of(a, p, s, o->loss == DPMF_LOSS_MAX);
    dpmf_strategy_free(s);
    return loss;
}

/* The matrices are the same, number for number. */
static void check_same(const dpmf_strategy *x, const dpmf_strategy *y) {
    double *a = check_strategy_matrix(x), *b = check_strategy_matrix(y);
    assert_memory_equal(a, b, (size_t)(dpmf_strategy_get(x).steps * dpmf_strategy_get(x).rows) * sizeof *a);
    free(a);
    free(b);
}

static void test_a_stamp_is_the_optimum_of_its_part_of_the_problem(void **unused) {
    static const char *const whole[] = {"single", "cyclic:6,10", "min-sep:4,12", "shuffled:6,10", "full"};
    static const char *const part[] = {"single", "cyclic:2,10", "min-sep:2,12", "shuffled:2,10", "full"};
    (void)unused;
    for (int i = 0; i < 5; i++) {
        dpmf_workload *a = workload_of("momentum:0.5", N), *head = workload_of("momentum:0.5", N / 3);
        dpmf_participation *p = participation_of(whole[i], N), *q = participation_of(part[i], N / 3);
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        dpmf_strategy *block = NULL, *repeated = NULL, *s = NULL;
        dpmf_optimization found;
        o.run.threads = 1;
        check_ok(dpmf_optimize("dense", head, q, &o, &block, &found));
        check_ok(dpmf_strategy_create_stamped(block, 3, &repeated));
        o.stamps = 3;
        check_ok(dpmf_optimize("dense", a, p, &o, &s, &found));
        assert_int_equal(dpmf_strategy_get(s).stamps, 3);
        assert_true(found.optimum_lower == 0 && isinf(found.optimum_upper) && found.scope == NULL);
        check_same(s, repeated);
        dpmf_strategy_free(s);
        s = NULL;
        o.stamp_participation = q; /* the same, by name */
        check_ok(dpmf_optimize("dense", a, p, &o, &s, &found));
        check_same(s, repeated);
        dpmf_strategy_free(s);
        dpmf_strategy_free(block);
        dpmf_strategy_free(repeated);
        dpmf_workload_free(a);
        dpmf_workload_free(head);
        dpmf_participation_free(p);
        dpmf_participation_free(q);
    }
}

static void test_the_chosen_number_of_stamps_has_the_least_loss(void **unused) {
    static const char *const families[] = {"dense", "blt", "tree-full", "fft", "toeplitz", "smooth-binary"};
    static const char *const kinds[] = {"cyclic:10,6", "min-sep:12,5", "full"};
    int several = 0;
    (void)unused;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 3; k++)
            for (int max = 0; max < 2; max++) {
                dpmf_workload *a = workload_of("prefix", N);
                dpmf_participation *p = participation_of(kinds[k], N), *single = participation_of("single", N);
                dpmf_optimize_options o = dpmf_optimize_options_defaults();
                const dpmf_strategy_options plain = dpmf_strategy_options_defaults();
                double least = INFINITY;
                int64_t stamps = 0;
                o.loss = max ? DPMF_LOSS_MAX : DPMF_LOSS_RMS;
                o.tolerance = 1e-4;
                o.stamp_participation = single; /* of any number of steps */
                if (i >= 2) o.closed_form = &plain;
                if (i == 1) o.buffers = 2;
                for (int64_t s = 1; s <= N; s++) {
                    o.stamps = s;
                    if (N % s == 0) least = fmin(least, stamped_loss(families[i], a, p, &o, NULL));
                }
                o.stamps = DPMF_STAMPS_AUTO;
                double chosen = stamped_loss(families[i], a, p, &o, &stamps);
                if (chosen > least * (1 + 1e-9))
                    fail_msg("%s, %s: %g with %d stamps, least %g", families[i], kinds[k], chosen, (int)stamps, least);
                several += stamps > 1;
                dpmf_workload_free(a);
                dpmf_participation_free(p);
                dpmf_participation_free(single);
            }
    print_message("more than one stamp in %d of 36\n", several);
    assert_true(several >= 12);
}

/* Weights of a stamp are the means; with weights that repeat, they are those of any stamp. */
static void test_weights_of_a_stamp_are_means_over_the_stamps(void **unused) {
    double weights[N], half[N / 2];
    dpmf_workload *a = workload_of("prefix", N), *head = workload_of("prefix", N / 2);
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_strategy *block = NULL, *repeated = NULL, *s = NULL;
    dpmf_optimization found;
    (void)unused;
    for (int t = 0; t < N; t++)
        weights[t] = (t < N / 2 ? 0.5 : 1.5) * (1 + t % (N / 2));
    for (int t = 0; t < N / 2; t++)
        half[t] = 1 + t;
    o.weights = half;
    check_ok(dpmf_optimize("dense", head, NULL, &o, &block, &found));
    check_ok(dpmf_strategy_create_stamped(block, 2, &repeated));
    o.weights = weights;
    o.stamps = 2;
    check_ok(dpmf_optimize("dense", a, NULL, &o, &s, &found));
    check_same(s, repeated);
    dpmf_strategy_free(s);
    dpmf_strategy_free(block);
    dpmf_strategy_free(repeated);
    dpmf_workload_free(a);
    dpmf_workload_free(head);
}

static void test_stamps_that_do_not_divide_the_steps_are_refused(void **unused) {
    dpmf_workload *a = workload_of("prefix", N);
    dpmf_participation *other = participation_of("cyclic:3,10", 30);
    const dpmf_strategy_options plain = dpmf_strategy_options_defaults();
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_strategy *s = NULL;
    dpmf_optimization found;
    static const int64_t refused[] = {-2, 7, 61, 120};
    (void)unused;
    for (int i = 0; i < 4; i++) {
        o.stamps = refused[i];
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("blt", a, NULL, &o, &s, &found));
        check_message("a divisor of the 60 steps");
    }
    o.stamps = 3;
    o.stamp_participation = other;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("dense", a, NULL, &o, &s, &found));
    check_message("cyclic:3,10 of 30 steps for a stamp of 20");
    o.stamp_participation = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("tree", a, NULL, &o, &s, &found)); /* it has no search */
    check_message("dense, tvblt");
    o.closed_form = &plain;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("dense", a, NULL, &o, &s, &found)); /* it has no closed form */
    check_message("without parameters");
    assert_null(s);
    dpmf_workload_free(a);
    dpmf_participation_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stamp_is_the_optimum_of_its_part_of_the_problem),
        cmocka_unit_test(test_the_chosen_number_of_stamps_has_the_least_loss),
        cmocka_unit_test(test_weights_of_a_stamp_are_means_over_the_stamps),
        cmocka_unit_test(test_stamps_that_do_not_divide_the_steps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
