/* SPDX-License-Identifier: Apache-2.0 */
/* The quadrature for the inverse square root: its error against extended precision, and what it claims about it. */
#include "check.h"

#include "base/quadrature.h"

#include <math.h>

/* The largest relative error over a fine geometric grid of the interval. */
static double worst_error(double low, double ratio, const dpmf_i_quadrature *q) {
    double worst = 0;
    for (int i = 0; i <= 1500; i++) {
        long double x = low * powl(ratio, i / 1500.0L), sum = 0;
        for (int j = 0; j < q->count; j++)
            sum += q->weight[j] / (x + (long double)q->shift[j]);
        worst = fmax(worst, (double)fabsl(sum * sqrtl(x) - 1));
    }
    return worst;
}

static void test_bound_holds(void **unused) {
    static const double ratios[] = {1, 1.5, 4, 10, 100, 1e4, 1e8, 1e12, 1e16, 1e20};
    (void)unused;
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++)
        for (int count = 1; count <= 64; count++) {
            dpmf_i_quadrature q;
            dpmf_i_quadrature_fill(1e-3, 1e-3 * ratios[i], count, &q);
            double worst = worst_error(1e-3, ratios[i], &q);
            assert_int_equal(q.count, count);
            assert_true(worst <= q.error);
            /* and it is not a wild guess: near 1e-14, or within a factor 3 of the truth on wide intervals */
            if (ratios[i] >= 100 && q.error < 0.1) assert_true(q.error <= 3 * worst + 3e-14);
        }
}

static void test_nodes(void **unused) {
    static const double ratios[] = {1, 1e3, 1e9, 1e15};
    static const double tolerances[] = {1e-2, 1e-6, 1e-12};
    (void)unused;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            dpmf_i_quadrature q;
            int count = dpmf_i_quadrature_nodes(ratios[i], tolerances[k]);
            dpmf_i_quadrature_fill(2, 2 * ratios[i], count, &q);
            assert_true(worst_error(2, ratios[i], &q) <= tolerances[k]);
        }
    assert_true(dpmf_i_quadrature_nodes(1e300, 1e-300) <= DPMF_I_NODES_MAX);
}

/* Positive, rising, and s_j s_{N+1-j} = low high. */
static void test_symmetry(void **unused) {
    (void)unused;
    for (int count = 1; count <= 41; count++) {
        dpmf_i_quadrature q;
        dpmf_i_quadrature_fill(1e-6, 10, count, &q);
        for (int j = 0; j < count; j++) {
            assert_true(q.shift[j] > 0 && q.weight[j] > 0);
            if (j > 0) assert_true(q.shift[j] > q.shift[j - 1]);
            check_near(q.shift[j] * q.shift[count - 1 - j] / 1e-5, 1, 1e-13);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound_holds), cmocka_unit_test(test_nodes),
                                       cmocka_unit_test(test_symmetry)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
