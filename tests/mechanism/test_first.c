/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of a run, and calibration: compared with mechanisms made of the leading block, and refusals. */
#include "dpmf.h"
#include "support/check.h"

#include <math.h>

enum { STEPS = 12 };

static void fill_matrix(double *c) {
    for (int t = 0; t < STEPS; t++)
        for (int j = 0; j < STEPS; j++)
            c[t * STEPS + j] = j > t ? 0 : t == j ? 1 + 0.1 * t : cos(3.0 * t + 7.0 * j) / (1 + t - j);
}

static dpmf_mechanism *calibrated(const dpmf_strategy *strategy, const char *participation, const char *sampling) {
    const int64_t n = dpmf_strategy_get(strategy).steps;
    dpmf_workload *workload = NULL;
    dpmf_participation *pattern = NULL;
    dpmf_mechanism *plain = NULL, *made = NULL;
    dpmf_sampling drawn;
    check_ok(dpmf_workload_parse("prefix", n, &workload));
    check_ok(dpmf_participation_parse(participation, n, &pattern));
    check_ok(dpmf_mechanism_create(workload, pattern, strategy, NULL, &plain));
    check_ok(dpmf_sampling_parse(sampling, &drawn));
    check_ok(dpmf_mechanism_calibrate(plain, 1, 1e-6, &drawn, NULL, NULL, &made, NULL));
    dpmf_workload_free(workload);
    dpmf_participation_free(pattern);
    dpmf_mechanism_free(plain);
    return made;
}

/* The leading block as a separate matrix, under the remaining participation. */
static void test_it_is_the_leading_block(void **state) {
    static const struct {
        int steps;
        const char *left;
    } cases[] = {{1, "single"}, {4, "cyclic:1,4"}, {5, "cyclic:2,4"}, {11, "cyclic:3,4"}};
    double c[STEPS * STEPS], block[STEPS * STEPS];
    dpmf_strategy *whole = NULL;
    (void)state;
    fill_matrix(c);
    check_ok(dpmf_strategy_create_dense(STEPS, c, &whole));
    dpmf_mechanism *m = calibrated(whole, "cyclic:3,4", "none");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int n = cases[i].steps;
        dpmf_strategy *leading = NULL;
        dpmf_participation *left = NULL;
        dpmf_sensitivity part;
        dpmf_account_options how;
        double sigma = 0;
        for (int t = 0; t < n; t++)
            for (int j = 0; j < n; j++)
                block[t * n + j] = c[t * STEPS + j];
        check_ok(dpmf_strategy_create_dense(n, block, &leading));
        check_ok(dpmf_participation_parse(cases[i].left, n, &left));
        check_ok(dpmf_sensitivity_compute(leading, left, NULL, &part));
        check_ok(dpmf_mechanism_account_first(m, n, NULL, &sigma, &how));
        const double noise = dpmf_mechanism_get(m).sigma * dpmf_mechanism_get(m).evaluation.sensitivity.value;
        check_near(sigma * part.value, noise, 1e-12);
        dpmf_strategy_free(leading);
        dpmf_participation_free(left);
    }
    dpmf_mechanism_free(m);
    dpmf_strategy_free(whole);
}

/* Structure is kept where there is some: as of the same numbers in a matrix. */
static void test_structured_strategies_have_the_same_blocks(void **state) {
    static const char *const families[] = {"toeplitz", "bsr", "bisr", "tree-full"};
    dpmf_workload *workload = NULL;
    (void)state;
    check_ok(dpmf_workload_parse("prefix", STEPS, &workload));
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        dpmf_strategy_options o = dpmf_strategy_options_defaults();
        dpmf_strategy *made = NULL, *dense = NULL;
        dpmf_account_options how;
        double one = 0, two = 0;
        if (families[i][0] == 'b') o.bands = 3;
        check_ok(dpmf_strategy_create(families[i], workload, &o, &made));
        check_ok(dpmf_strategy_create_triangular(made, &dense));
        dpmf_mechanism *a = calibrated(made, "single", "none"), *b = calibrated(dense, "single", "none");
        check_ok(dpmf_mechanism_account_first(a, 7, NULL, &one, &how));
        check_ok(dpmf_mechanism_account_first(b, 7, NULL, &two, &how));
        const double noise_a = dpmf_mechanism_get(a).evaluation.sensitivity.value,
                     noise_b = dpmf_mechanism_get(b).evaluation.sensitivity.value;
        check_near(one / noise_a, two / noise_b, 1e-9);
        dpmf_mechanism_free(a);
        dpmf_mechanism_free(b);
        dpmf_strategy_free(made);
        dpmf_strategy_free(dense);
    }
    dpmf_workload_free(workload);
}

static void test_sampled_runs_have_fewer_compositions(void **state) {
    dpmf_workload *workload = NULL;
    dpmf_strategy_options o = {.bands = 3};
    dpmf_strategy *bsr = NULL;
    dpmf_account_options how;
    dpmf_privacy p;
    double sigma = 0;
    (void)state;
    check_ok(dpmf_workload_parse("prefix", STEPS, &workload));
    check_ok(dpmf_strategy_create("bsr", workload, &o, &bsr));
    dpmf_mechanism *m = calibrated(bsr, "single", "block-cyclic:0.1,3");
    check_ok(dpmf_mechanism_account_first(m, 7, NULL, &sigma, &how));
    check_near(sigma, dpmf_mechanism_get(m).sigma, 1e-12); /* the largest column is among them */
    check_ok(dpmf_account_epsilon(sigma, 1e-6, &how, &p));
    assert_int_equal(p.compositions, 3);
    assert_true(p.epsilon < 1);
    assert_int_equal(dpmf_mechanism_account_first(m, 0, NULL, &sigma, &how), DPMF_ERROR_ARGUMENT);
    assert_int_equal(dpmf_mechanism_account_first(m, STEPS + 1, NULL, &sigma, &how), DPMF_ERROR_ARGUMENT);
    dpmf_mechanism_free(m);
    m = calibrated(bsr, "single", "min-sep:0.1,3");
    assert_int_equal(dpmf_mechanism_account_first(m, 5, NULL, &sigma, &how), DPMF_ERROR_UNSUPPORTED);
    dpmf_mechanism_free(m);
    dpmf_strategy_free(bsr);
    dpmf_workload_free(workload);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_the_leading_block),
        cmocka_unit_test(test_structured_strategies_have_the_same_blocks),
        cmocka_unit_test(test_sampled_runs_have_fewer_compositions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
