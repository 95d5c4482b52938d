/* SPDX-License-Identifier: Apache-2.0 */
/* The best banded C: known optima that take longer, the max loss, and many steps. */
#include "support/check.h"

#include "optimize/optimize.h"

#include <math.h>

static dpmf_optimization optimize(const char *work, int64_t n, int64_t bands, const char *who, dpmf_loss loss) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_optimize_options options = {.loss = loss, .bands = bands, .tolerance = 1e-6};
    dpmf_strategy *c = NULL;
    dpmf_evaluation e;
    dpmf_evaluate_options evaluate = dpmf_evaluate_options_defaults();
    dpmf_optimization result;
    check_ok(dpmf_workload_parse(work, n, &a));
    check_ok(dpmf_participation_parse(who, n, &p));
    const dpmf_i_optimize_task task = {a, p, &options};
    check_ok(dpmf_i_optimize_banded(&task, &c, &result));
    evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_evaluate(a, p, c, &evaluate, &e, NULL));
    check_near((loss == DPMF_LOSS_MAX ? e.max_loss : e.rms_loss) / result.optimum_upper, 1, 1e-6);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
    return result;
}

static void check_optimum(const char *work, int64_t n, int64_t bands, const char *who, dpmf_loss loss, double want) {
    dpmf_optimization got = optimize(work, n, bands, who, loss);
    assert_int_equal(got.outcome, DPMF_CONVERGED);
    check_near(got.optimum_upper / want, 1, 3e-6);
    check_near(got.optimum_lower / want, 1, 3e-6);
}

static void test_banded_optima_of_thousands_of_steps_are_the_known_ones(void **state) {
    (void)state;
    check_optimum("prefix", 1024, 16, "single", DPMF_LOSS_RMS, 6.298836);
    check_optimum("prefix", 2048, 16, "single", DPMF_LOSS_RMS, 8.586683);
    check_optimum("prefix", 4096, 16, "single", DPMF_LOSS_RMS, 11.847437);
    check_optimum("momentum:0.95", 1000, 16, "single", DPMF_LOSS_RMS, 109.893524);
}

static void test_banded_optima_of_the_max_loss_are_the_known_ones(void **state) {
    (void)state;
    check_optimum("prefix", 64, 8, "single", DPMF_LOSS_MAX, 3.092930);
    check_optimum("prefix", 64, 16, "single", DPMF_LOSS_MAX, 2.506047);
    check_optimum("prefix", 64, 8, "cyclic:4,16", DPMF_LOSS_MAX, 6.101698);
    check_optimum("prefix", 64, 16, "cyclic:4,16", DPMF_LOSS_MAX, 4.926857);
    check_optimum("prefix", 64, 8, "minsep:4,16", DPMF_LOSS_MAX, 6.170412);
    check_optimum("prefix", 64, 16, "minsep:4,16", DPMF_LOSS_MAX, 4.991273);
}

/* Many participations, and bands up to the separation: the class of Pillutla et al. 2025, Problem 4.8, and beyond. */
static void test_the_banded_optimum_of_twenty_participations_is_the_known_one(void **state) {
    (void)state;
    check_optimum("prefix", 1000, 50, "minsep:20,50", DPMF_LOSS_RMS, 18.371667);
}

/* n = 10^5: still certified, to the tolerance or to what a minute or two of steps give. */
static void test_the_banded_optimum_of_100000_steps_is_certified(void **state) {
    (void)state;
    dpmf_optimization got = optimize("prefix", 100000, 16, "single", DPMF_LOSS_RMS);
    check_near(got.optimum_upper / 56.230047, 1, 1e-6);
    assert_true(got.optimum_lower > got.optimum_upper * (1 - 1e-4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_banded_optima_of_thousands_of_steps_are_the_known_ones),
        cmocka_unit_test(test_banded_optima_of_the_max_loss_are_the_known_ones),
        cmocka_unit_test(test_the_banded_optimum_of_twenty_participations_is_the_known_one),
        cmocka_unit_test(test_the_banded_optimum_of_100000_steps_is_certified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
