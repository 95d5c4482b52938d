/* SPDX-License-Identifier: Apache-2.0 */
/* Limited-memory BFGS: exact on quadratics, the secant condition, what it drops and forgets, failing allocations. */
#include "base/minimize.h"

#include "base/linalg.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>

enum { N = 40, PAIRS = 10 };

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
    minimize_lbfgs memory = {0};
    (void)unused;
    for (int i = 0; i < N; i++)
        c[i] = pow(10, i % 4); /* four eigenvalues */
    check_ok(minimize_lbfgs_create(N, PAIRS, &memory));
    gradient_of(c, x, g);
    for (int k = 0; k < 4; k++) {
        double curvature = 0;
        minimize_lbfgs_direction(&memory, g, d);
        if (k == 0)
            for (int i = 0; i < N; i++)
                assert_true(d[i] == -g[i]);
        assert_true(dot(d, g) < 0);
        for (int i = 0; i < N; i++)
            curvature += c[i] * d[i] * d[i];
        for (int i = 0; i < N; i++)
            next[i] = x[i] - dot(d, g) / curvature * d[i];
        gradient_of(c, next, next_g);
        minimize_lbfgs_remember(&memory, x, g, next, next_g);
        assert_int_equal(memory.used, k + 1);
        for (int i = 0; i < N; i++)
            x[i] = next[i], g[i] = next_g[i];
    }
    for (int i = 0; i < N; i++)
        check_near(x[i], 1, 1e-9);
    minimize_lbfgs_free(&memory);
}

/* H y = s for the newest pair, however many have passed. */
static void test_the_newest_pair_is_met_exactly(void **unused) {
    double c[N], x[N], g[N], next[N], next_g[N], d[N], y[N];
    uint64_t seed = 1;
    minimize_lbfgs memory = {0};
    (void)unused;
    for (int i = 0; i < N; i++)
        c[i] = 2 + check_random(&seed), x[i] = 0;
    check_ok(minimize_lbfgs_create(N, PAIRS, &memory));
    gradient_of(c, x, g);
    for (int k = 0; k < 25; k++) {
        for (int i = 0; i < N; i++)
            next[i] = check_random(&seed);
        gradient_of(c, next, next_g);
        minimize_lbfgs_remember(&memory, x, g, next, next_g);
        assert_int_equal(memory.used, k + 1 < PAIRS ? k + 1 : PAIRS);
        for (int i = 0; i < N; i++)
            y[i] = next_g[i] - g[i];
        minimize_lbfgs_direction(&memory, y, d);
        for (int i = 0; i < N; i++)
            check_near(d[i], x[i] - next[i], 1e-12);
        for (int i = 0; i < N; i++)
            x[i] = next[i], g[i] = next_g[i];
    }
    /* a step without positive curvature is dropped, and the pair whose place it took with it */
    for (int i = 0; i < N; i++)
        next[i] = x[i] + 1, next_g[i] = g[i] - 1;
    minimize_lbfgs_remember(&memory, x, g, next, next_g);
    assert_int_equal(memory.used, PAIRS - 1);
    minimize_lbfgs_direction(&memory, y, d);
    double along = dot(y, d);
    assert_true(along < 0 && isfinite(along)); /* still positive definite */
    minimize_lbfgs_forget(&memory);
    minimize_lbfgs_direction(&memory, y, d);
    for (int i = 0; i < N; i++)
        assert_true(d[i] == -y[i]);
    minimize_lbfgs_free(&memory);
}

/* The two loops as the book has them, H = (I - s y'/s.y) H (I - y s'/s.y) + s s'/s.y, over `used` pairs, oldest first. */
static void plain_direction(int64_t n, int used, double *const *s, double *const *y, const double *g, double *d) {
    double along[PAIRS];
    for (int64_t i = 0; i < n; i++)
        d[i] = -g[i];
    for (int k = used - 1; k >= 0; k--) {
        along[k] = base_dot(n, s[k], d) / base_dot(n, s[k], y[k]);
        for (int64_t i = 0; i < n; i++)
            d[i] -= along[k] * y[k][i];
    }
    const int newest = used - 1;
    const double scale = base_dot(n, s[newest], y[newest]) / base_dot(n, y[newest], y[newest]);
    for (int64_t i = 0; i < n; i++)
        d[i] *= scale;
    for (int k = 0; k < used; k++) {
        const double back = base_dot(n, y[k], d) / base_dot(n, s[k], y[k]);
        for (int64_t i = 0; i < n; i++)
            d[i] += (along[k] - back) * s[k][i];
    }
}

/* Sizes around one block and one group of sums; three pairs that have gone round once. */
static void test_the_direction_is_that_of_the_plain_loops(void **unused) {
    static const int64_t sizes[] = {1, 7, 8, 9, 1023, 1024, 1025, 3000};
    enum { KEPT = 3, STEPS = 5, LARGEST = 3000 };
    static double x[STEPS + 1][LARGEST], g[STEPS + 1][LARGEST], step[KEPT][LARGEST], change[KEPT][LARGEST], d[LARGEST],
        expected[LARGEST];
    double *const s[] = {step[0], step[1], step[2]}, *const y[] = {change[0], change[1], change[2]};
    uint64_t seed = 2;
    (void)unused;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        const int64_t n = sizes[size];
        minimize_lbfgs memory = {0};
        check_ok(minimize_lbfgs_create(n, KEPT, &memory));
        for (int k = 0; k <= STEPS; k++) {
            for (int64_t i = 0; i < n; i++) {
                x[k][i] = check_random(&seed);
                g[k][i] = (1 + (double)(i % 5)) * x[k][i] + 0.1 * x[k][i] * x[k][i] * x[k][i];
            }
            if (k > 0) minimize_lbfgs_remember(&memory, x[k - 1], g[k - 1], x[k], g[k]);
        }
        for (int k = 0; k < KEPT; k++)
            for (int64_t i = 0; i < n; i++) {
                const int from = STEPS - KEPT + k;
                step[k][i] = x[from + 1][i] - x[from][i];
                change[k][i] = g[from + 1][i] - g[from][i];
            }
        minimize_lbfgs_direction(&memory, g[STEPS], d);
        plain_direction(n, KEPT, s, y, g[STEPS], expected);
        for (int64_t i = 0; i < n; i++)
            check_near(d[i], expected[i], 1e-12);
        minimize_lbfgs_free(&memory);
    }
}

static void test_any_allocation_of_the_memory_of_pairs_may_fail(void **unused) {
    minimize_lbfgs memory = {0};
    (void)unused;
    FAIL_EACH(minimize_lbfgs_create(3, PAIRS, &memory));
    minimize_lbfgs_free(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_many_steps_are_needed_as_there_are_eigenvalues),
                                       cmocka_unit_test(test_the_newest_pair_is_met_exactly),
                                       cmocka_unit_test(test_the_direction_is_that_of_the_plain_loops),
                                       cmocka_unit_test(test_any_allocation_of_the_memory_of_pairs_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
