/* SPDX-License-Identifier: Apache-2.0 */
/* Limited-memory BFGS: exact on quadratics, the secant condition, what it drops and forgets, failing allocations. */
#include "optimum/lbfgs.h"

#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>

enum { N = 40 };

/* f = 1/2 sum c_i (x_i - 1)^2. */
static void gradient_of(const double *c, const double *x, double *g) {
    for (int i = 0; i < N; i++)
        g[i] = c[i] * (x[i] - 1);
}

static double dot(const double *x, const double *y) {
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += x[i] * y[i];
    return sum;
}

/* With exact line searches it is the method of conjugate gradients: as many steps as distinct eigenvalues. */
static void test_as_many_steps_are_needed_as_there_are_eigenvalues(void **unused) {
    double c[N], x[N] = {0}, g[N], next[N], next_g[N], d[N];
    dpmf_i_optimum_lbfgs memory = {0};
    (void)unused;
    for (int i = 0; i < N; i++)
        c[i] = pow(10, i % 4); /* four eigenvalues */
    check_ok(dpmf_i_optimum_lbfgs_create(N, &memory));
    gradient_of(c, x, g);
    for (int k = 0; k < 4; k++) {
        double curvature = 0;
        dpmf_i_optimum_lbfgs_direction(&memory, g, d);
        if (k == 0)
            for (int i = 0; i < N; i++)
                assert_true(d[i] == -g[i]);
        assert_true(dot(d, g) < 0);
        for (int i = 0; i < N; i++)
            curvature += c[i] * d[i] * d[i];
        for (int i = 0; i < N; i++)
            next[i] = x[i] - dot(d, g) / curvature * d[i];
        gradient_of(c, next, next_g);
        dpmf_i_optimum_lbfgs_remember(&memory, x, g, next, next_g);
        assert_int_equal(memory.used, k + 1);
        for (int i = 0; i < N; i++)
            x[i] = next[i], g[i] = next_g[i];
    }
    for (int i = 0; i < N; i++)
        check_near(x[i], 1, 1e-9);
    dpmf_i_optimum_lbfgs_free(&memory);
}

/* H y = s for the newest pair, however many have passed. */
static void test_the_newest_pair_is_met_exactly(void **unused) {
    double c[N], x[N], g[N], next[N], next_g[N], d[N], y[N];
    uint64_t seed = 1;
    dpmf_i_optimum_lbfgs memory = {0};
    (void)unused;
    for (int i = 0; i < N; i++)
        c[i] = 2 + check_random(&seed), x[i] = 0;
    check_ok(dpmf_i_optimum_lbfgs_create(N, &memory));
    gradient_of(c, x, g);
    for (int k = 0; k < 25; k++) {
        for (int i = 0; i < N; i++)
            next[i] = check_random(&seed);
        gradient_of(c, next, next_g);
        dpmf_i_optimum_lbfgs_remember(&memory, x, g, next, next_g);
        assert_int_equal(memory.used, k + 1 < DPMF_I_OPTIMUM_LBFGS_PAIRS ? k + 1 : DPMF_I_OPTIMUM_LBFGS_PAIRS);
        for (int i = 0; i < N; i++)
            y[i] = next_g[i] - g[i];
        dpmf_i_optimum_lbfgs_direction(&memory, y, d);
        for (int i = 0; i < N; i++)
            check_near(d[i], x[i] - next[i], 1e-12);
        for (int i = 0; i < N; i++)
            x[i] = next[i], g[i] = next_g[i];
    }
    /* a step without positive curvature is dropped, and the pair whose place it took with it */
    for (int i = 0; i < N; i++)
        next[i] = x[i] + 1, next_g[i] = g[i] - 1;
    dpmf_i_optimum_lbfgs_remember(&memory, x, g, next, next_g);
    assert_int_equal(memory.used, DPMF_I_OPTIMUM_LBFGS_PAIRS - 1);
    dpmf_i_optimum_lbfgs_direction(&memory, y, d);
    double along = dot(y, d);
    assert_true(along < 0 && isfinite(along)); /* still positive definite */
    dpmf_i_optimum_lbfgs_forget(&memory);
    dpmf_i_optimum_lbfgs_direction(&memory, y, d);
    for (int i = 0; i < N; i++)
        assert_true(d[i] == -y[i]);
    dpmf_i_optimum_lbfgs_free(&memory);
}

static void test_any_allocation_of_the_memory_of_pairs_may_fail(void **unused) {
    dpmf_i_optimum_lbfgs memory = {0};
    (void)unused;
    FAIL_EACH(dpmf_i_optimum_lbfgs_create(3, &memory));
    dpmf_i_optimum_lbfgs_free(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_many_steps_are_needed_as_there_are_eigenvalues),
                                       cmocka_unit_test(test_the_newest_pair_is_met_exactly),
                                       cmocka_unit_test(test_any_allocation_of_the_memory_of_pairs_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
