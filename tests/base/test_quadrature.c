/* SPDX-License-Identifier: Apache-2.0 */
/* The quadrature for x^(-1/2): its error bound as a bound and as no more than needed, symmetry, the number of nodes. */
#include "base/special.h"

#include "support/check.h"

#include <math.h>
#include <stdio.h>

static const double RATIOS[] = {1,   1 + 1e-12, 1.5, 3.999, 4,    4.001, 10,   1e2,
                                1e3, 1e5,       1e8, 1e12,  1e16, 1e20,  1e24, 1e30};
enum { RATIO_COUNT = sizeof RATIOS / sizeof RATIOS[0] };

/* The largest |sqrt(x) sum w/(x+s) - 1| over `count` points of [low, high], both ends among them, in long double. */
static double worst_error(const base_quadrature *rule, double low, double high, int count) {
    long double worst = 0;
    for (int i = 0; i < count; i++) {
        long double x = i == 0           ? (long double)low
                        : i == count - 1 ? (long double)high
                                         : low * expl(logl((long double)high / low) * i / (count - 1));
        long double sum = 0;
        for (int j = 0; j < rule->count; j++)
            sum += rule->weight[j] / (x + rule->shift[j]);
        worst = fmaxl(worst, fabsl(sqrtl(x) * sum - 1));
    }
    return (double)worst;
}

/* Every ratio, every number of nodes, several scales: the error claimed holds. */
static void test_the_claimed_error_holds(void **unused) {
    static const double lows[] = {1e-14, 1, 3e7};
    (void)unused;
    for (int r = 0; r < RATIO_COUNT; r++)
        for (int count = 1; count <= 64; count++)
            for (int k = 0; k < 3; k++) {
                base_quadrature rule;
                double low = lows[k], high = low * RATIOS[r];
                base_quadrature_fill(low, high, count, &rule);
                assert_int_equal(rule.count, count);
                assert_true(rule.error > 0);
                if (isinf(rule.error)) continue;
                double worst = worst_error(&rule, low, high, 200);
                if (!(worst <= rule.error))
                    fail_msg("ratio %g, %d nodes: error %.3g, claimed %.3g", RATIOS[r], count, worst, rule.error);
            }
}

/* A bound that is no bound for too few nodes says so, and one is claimed as soon as the error falls below 1. */
static void test_a_claimed_error_is_not_far_above_the_true_one(void **unused) {
    (void)unused;
    for (int r = 0; r < RATIO_COUNT; r++)
        for (int count = 1; count <= BASE_NODES_MAX; count++) {
            base_quadrature rule;
            base_quadrature_fill(2, 2 * RATIOS[r], count, &rule);
            double worst = worst_error(&rule, 2, 2 * RATIOS[r], 2000);
            if (isinf(rule.error))
                assert_true(worst > 0.1 || RATIOS[r] < 4);
            else if (RATIOS[r] >= 100 && rule.error > 1e-12 && rule.error < 0.1)
                assert_true(worst > 0.8 * rule.error);
            else
                assert_true(rule.error < 20);
        }
}

/* Full precision: with nodes enough the error is rounding alone, at any ratio. */
static void test_enough_nodes_leave_rounding_alone(void **unused) {
    (void)unused;
    for (int r = 0; r < RATIO_COUNT; r++) {
        base_quadrature rule;
        int count = base_quadrature_nodes(RATIOS[r], 1e-16) + 4;
        base_quadrature_fill(0.7, 0.7 * RATIOS[r], count, &rule);
        double worst = worst_error(&rule, 0.7, 0.7 * RATIOS[r], 1000);
        if (!(worst <= 1e-14)) fail_msg("ratio %g, %d nodes: error %.3g", RATIOS[r], count, worst);
        assert_true(rule.error <= 3e-14);
    }
}

static void test_nodes_and_weights_are_symmetric(void **unused) {
    (void)unused;
    for (int r = 0; r < RATIO_COUNT; r++)
        for (int count = 1; count <= BASE_NODES_MAX; count++) {
            base_quadrature rule;
            double low = 1e-3, high = low * RATIOS[r];
            base_quadrature_fill(low, high, count, &rule);
            for (int j = 0; j < count; j++) {
                assert_true(rule.shift[j] > 0 && rule.weight[j] > 0);
                if (j > 0) assert_true(rule.shift[j] > rule.shift[j - 1]);
                check_near(rule.shift[j] * rule.shift[count - 1 - j] / (low * high), 1, 1e-14);
                /* w_{N+1-j} / w_j = sqrt(s_{N+1-j} / s_j), as the substitution x -> low high / x asks */
                check_near(rule.weight[count - 1 - j] / rule.weight[j] /
                               sqrt(rule.shift[count - 1 - j] / rule.shift[j]),
                           1, 1e-13);
            }
        }
}

/* Scaling the interval scales the nodes, and the weights by its root. */
static void test_scaling_the_interval_scales_nodes_and_weights(void **unused) {
    base_quadrature one, other;
    (void)unused;
    base_quadrature_fill(1, 1e9, 21, &one);
    base_quadrature_fill(1e-40, 1e-31, 21, &other);
    for (int j = 0; j < 21; j++) {
        check_near(other.shift[j] * 1e40 / one.shift[j], 1, 1e-13);
        check_near(other.weight[j] * 1e20 / one.weight[j], 1, 1e-13);
    }
}

/* As many nodes as the tolerance needs, and no more than one too many. */
static void test_as_many_nodes_are_chosen_as_the_tolerance_needs(void **unused) {
    static const double tolerances[] = {0.5, 1e-2, 1e-4, 1e-7, 1e-10, 1e-13};
    (void)unused;
    for (int r = 0; r < RATIO_COUNT; r++)
        for (size_t k = 0; k < sizeof tolerances / sizeof *tolerances; k++) {
            base_quadrature rule;
            int count = base_quadrature_nodes(RATIOS[r], tolerances[k]);
            assert_in_range(count, 1, BASE_NODES_MAX);
            base_quadrature_fill(1, RATIOS[r], count, &rule);
            assert_true(rule.error <= tolerances[k] * (1 + 1e-9));
            if (count == 1) continue;
            base_quadrature_fill(1, RATIOS[r], count - 1, &rule);
            assert_true(rule.error > tolerances[k] * 0.99 || isinf(rule.error));
        }
    assert_int_equal(base_quadrature_nodes(1e300, 0), BASE_NODES_MAX);
    assert_int_equal(base_quadrature_nodes(1, 100), base_quadrature_nodes(1, 1e6));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_claimed_error_holds),
                                       cmocka_unit_test(test_a_claimed_error_is_not_far_above_the_true_one),
                                       cmocka_unit_test(test_enough_nodes_leave_rounding_alone),
                                       cmocka_unit_test(test_nodes_and_weights_are_symmetric),
                                       cmocka_unit_test(test_scaling_the_interval_scales_nodes_and_weights),
                                       cmocka_unit_test(test_as_many_nodes_are_chosen_as_the_tolerance_needs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
