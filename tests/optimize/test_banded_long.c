/* SPDX-License-Identifier: Apache-2.0 */
/* The best banded C: known optima that take longer, the max loss, and many steps. */
#include "families/banded/banded.h"
#include "support/check.h"

#include "optimize/optimize.h"

#include <math.h>

static dpmf_optimization optimize(const char *work, int64_t n, int64_t bands, const char *who, dpmf_loss loss,
                                  double tolerance) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_optimize_options options = {.loss = loss, .bands = bands, .tolerance = tolerance};
    dpmf_strategy *c = NULL;
    dpmf_evaluation e;
    dpmf_evaluate_options evaluate = dpmf_evaluate_options_defaults();
    dpmf_optimization result;
    check_ok(dpmf_workload_parse(work, n, &a));
    check_ok(dpmf_participation_parse(who, n, &p));
    const optimize_task task = {a, p, &options, NULL};
    check_ok(banded_optimize(&task, &c, &result));
    evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_evaluate(a, p, c, &evaluate, &e, NULL));
    check_near((loss == DPMF_LOSS_MAX ? e.max_loss : e.rms_loss) / result.optimum_upper, 1, 1e-6);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
    return result;
}

static void check_optimum(const char *work, int64_t n, int64_t bands, const char *who, dpmf_loss loss, double want) {
    dpmf_optimization got = optimize(work, n, bands, who, loss, 1e-6);
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

/* The steps that are taken hardly grow with n, because the bound is about as near the optimum as C is. */
static void test_few_steps_are_enough_for_the_banded_optimum(void **state) {
    (void)state;
    static const struct {
        int64_t n;
        double loss, tolerance;
        int most;
    } CASES[] = {{4096, 11.847437, 1e-5, 100},
                 {4096, 11.847437, 1e-6, 150},
                 {20000, 25.423037, 1e-5, 125},
                 {100000, 56.230047, 1e-5, 125}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        dpmf_optimization got = optimize("prefix", CASES[i].n, 16, "single", DPMF_LOSS_RMS, CASES[i].tolerance);
        assert_int_equal(got.outcome, DPMF_CONVERGED);
        assert_in_range(got.iterations, 1, CASES[i].most);
        assert_true(got.optimum_lower <= CASES[i].loss * (1 + 1e-7)); /* a better C has this loss */
        check_near(got.optimum_upper / CASES[i].loss, 1, CASES[i].tolerance);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_banded_optima_of_thousands_of_steps_are_the_known_ones),
        cmocka_unit_test(test_banded_optima_of_the_max_loss_are_the_known_ones),
        cmocka_unit_test(test_the_banded_optimum_of_twenty_participations_is_the_known_one),
        cmocka_unit_test(test_few_steps_are_enough_for_the_banded_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
