/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that certified accounting rests on, compared with plain arithmetic in long double. */
#include "account/grid/grid.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The loss at a grid point's z, in long double, is where account/grid/atoms.c takes it to be. */
static long double exact_loss(const account_pair *pair, double z) {
    const long double s = pair->sigma, q = pair->probability;
    const long double up = log1pl(q * expm1l((2 * (long double)z - 1) / (2 * s * s)));
    if (pair->direction == ACCOUNT_REMOVE) return up;
    if (pair->direction == ACCOUNT_ADD) return -up;
    return up - log1pl(q * expm1l((-2 * (long double)z - 1) / (2 * s * s)));
}

static void test_the_inverse_of_the_loss_is_within_its_rounding(void **state) {
    (void)state;
    uint64_t seed = 9;
    int compared = 0;
    for (int i = 0; i < 3000; i++) {
        const account_pair pair = {(account_direction)(i % 3), exp(3 * check_random(&seed)),
                                   exp(9 * (check_random(&seed) - 1)), 1};
        const pair_constants p = pair_prepare(&pair);
        const double x = (i % 2 ? 1 : -1) * exp(8 * check_random(&seed) - 6);
        const double z = pair_inverse(&p, x);
        if (isinf(z)) continue;
        const long double away = 1e-3L * fabsl((long double)z) + 1e-6L;
        const long double slope =
            (exact_loss(&pair, (double)(z + away)) - exact_loss(&pair, (double)(z - away))) / (2 * away);
        const double allowed =
            GRID_ROUNDING * (p.edge_error * fabs(x) + 1.5 * (double)fabsl(slope) * 4 * (fabs(z) + 1));
        const double error = (double)fabsl(exact_loss(&pair, z) - x);
        if (!(error <= 2 * allowed)) fail_msg("case %d: off by %g where %g is allowed", i, error, allowed);
        compared++;
    }
    assert_true(compared > 1500);
}

/* The atoms keep the masses of P and of Q, at steps from coarse to so fine that differences of masses would cancel. */
static void test_atoms_keep_masses(void **state) {
    (void)state;
    for (int i = 0; i < 18; i++) {
        static const double sigmas[] = {.4, 1, 20}, steps[] = {1.0 / 3, 1e-3};
        const account_pair pair = {(account_direction)(i % 3), sigmas[i / 3 % 3], i % 2 ? .01 : .3, 1};
        const pair_constants p = pair_prepare(&pair);
        grid_plan plan = {.order = 1.5, .log_moment = .3, .step = steps[i / 9], .length = 1 << 17};
        plan.z_low = pair.direction == ACCOUNT_ADD ? 1 + 9 * p.sigma : -1 - 9 * p.sigma;
        plan.z_high = pair.direction == ACCOUNT_ADD ? -8 * p.sigma : 1 + 9 * p.sigma;
        if (pair.sigma > 2) plan.step *= 1e-2;
        double *w = calloc((size_t)plan.length, sizeof *w);
        assert_non_null(w);
        grid_moments m;
        check_ok(grid_densities(&p, &plan, NULL, w, &m));
        long double mass_p = 0, mass_q = 0;
        for (int64_t k = -plan.length / 2; k < plan.length / 2; k++) {
            const long double x = (long double)k * plan.step;
            const double weight = w[k < 0 ? k + plan.length : k];
            if (weight < 1e-280) continue; /* a margin against underflow */
            const long double atom = weight * expl(m.log_moment - plan.order * x);
            mass_p += atom;
            mass_q += atom * expl(-x);
        }
        free(w);
        /* P: all but the upper tail, and never less. Q: the lower tail was moved up, where it has less of Q. */
        const double above = exp(pair_log_above(&p, plan.z_high));
        assert_true(mass_p >= 1 - (long double)above - 1e-17L);
        check_near((double)mass_p, 1 - above, 1e-11);
        assert_true(fabs((double)mass_q - 1) < 1e-9);
    }
}

/* Against the definition, in long double. */
static void test_powers_of_atoms_are_their_definition(void **state) {
    (void)state;
    enum { N = 128 };
    uint64_t seed = 3;
    for (int centred = 0; centred < 2; centred++) {
        double w[N] = {0};
        long double sum = 0, exact[N] = {1}, next[N];
        for (int j = 1; j < 20; j++) {
            w[j] = (centred ? 1e-9 : 1) * (1 + check_random(&seed)) / 19;
            sum += w[j];
        }
        w[0] = centred ? (double)(1 - sum) : 0;
        const int n = centred ? 1000 : 40;
        for (int k = 0; k < n; k++) {
            for (int j = 0; j < N; j++) {
                next[j] = 0;
                for (int i = 0; i < 20; i++) {
                    next[j] += w[i] * exact[(j - i + N) % N];
                }
            }
            for (int j = 0; j < N; j++) {
                exact[j] = next[j];
            }
        }
        double noise = NAN;
        check_ok(grid_power(N, n, w, NULL, &noise));
        assert_true(noise > 0 && noise < (centred ? 1e-18 : 1e-10));
        for (int j = 0; j < N; j++) {
            if (!(fabsl(w[j] - exact[j]) <= noise + (j == 0 ? 1e-13L * centred : 0))) {
                fail_msg("slot %d: %.17g, exactly %.17Lg, noise %g", j, w[j], exact[j], noise);
            }
            assert_true(w[j] + noise >= exact[j] || j > 0);
        }
    }
}

/* Of two variables, three and two times, against the definition. */
static void test_sums_of_several_are_their_definition(void **state) {
    (void)state;
    enum { N = 128, WIDE = 12 };
    static const int times[2] = {3, 2};
    uint64_t seed = 5;
    long double exact[N] = {1}, next[N];
    double w[2][N] = {{0}}, out[N];
    grid_spectrum v;
    check_ok(grid_spectrum_create(N, &v));
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < WIDE; j++)
            w[i][j] = (1.5 + check_random(&seed)) / (1.5 * WIDE);
        for (int k = 0; k < times[i]; k++) {
            for (int j = 0; j < N; j++) {
                next[j] = 0;
                for (int a = 0; a < WIDE; a++)
                    next[j] += w[i][a] * exact[(j - a + N) % N];
            }
            memcpy(exact, next, sizeof exact);
        }
        grid_spectrum_add(&v, times[i], w[i]);
    }
    const double noise = grid_spectrum_sum(&v, out);
    assert_true(noise > 0 && noise < 1e-12);
    for (int j = 0; j < N; j++)
        assert_true(fabsl(out[j] - exact[j]) <= noise);
    grid_spectrum_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_inverse_of_the_loss_is_within_its_rounding),
        cmocka_unit_test(test_atoms_keep_masses),
        cmocka_unit_test(test_powers_of_atoms_are_their_definition),
        cmocka_unit_test(test_sums_of_several_are_their_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
