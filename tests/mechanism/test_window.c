/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is released up to the end of a window reveals about units whose participations lie in it (docs/accounting.md, Windows): by brute
 * force over all patterns, the account of the first W steps for Toeplitz matrices; the window alone reveals less.
 */
#include "dpmf.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 12, WINDOW = 6, GAP = 3 };

/* x with M x = b, M positive definite and small. */
static void solve(int n, double m[STEPS][STEPS], double *b) {
    for (int k = 0; k < n; k++)
        for (int i = k + 1; i < n; i++) {
            const double factor = m[i][k] / m[k][k];
            for (int j = k; j < n; j++)
                m[i][j] -= factor * m[k][j];
            b[i] -= factor * b[k];
        }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            b[i] -= m[i][j] * b[j];
        b[i] /= m[i][i];
    }
}

/* |C d|, the first `rows` rows. */
static double norm(int rows, const double *c, const double *d) {
    double sum = 0;
    for (int i = 0; i < rows; i++) {
        double entry = 0;
        for (int j = 0; j < STEPS; j++)
            entry += c[i * STEPS + j] * d[j];
        sum += entry * entry;
    }
    return sqrt(sum);
}

/* sqrt(d' (R R')^-1 d), R the rows of C^-1 in the window. */
static double alone(int start, const double *inverse, const double *d) {
    double covariance[STEPS][STEPS], x[STEPS], sum = 0;
    for (int i = 0; i < WINDOW; i++) {
        x[i] = d[start + i];
        for (int j = 0; j < WINDOW; j++) {
            covariance[i][j] = 0;
            for (int k = 0; k < STEPS; k++)
                covariance[i][j] += inverse[(start + i) * STEPS + k] * inverse[(start + j) * STEPS + k];
        }
    }
    solve(WINDOW, covariance, x);
    for (int i = 0; i < WINDOW; i++)
        sum += x[i] * d[start + i];
    return sqrt(sum);
}

/* The same as a distance: of C d to what sums that are not seen could make of it, min |C (d + e)| over e outside of the window. */
static double distance(int start, const double *c, const double *d) {
    double normal[STEPS][STEPS], e[STEPS], moved[STEPS];
    int outside[STEPS], count = 0;
    for (int t = 0; t < STEPS; t++)
        if (t < start || t >= start + WINDOW) outside[count++] = t;
    for (int i = 0; i < count; i++) {
        e[i] = 0;
        for (int j = 0; j < count; j++)
            normal[i][j] = 0;
        for (int r = 0; r < STEPS; r++) {
            double image = 0;
            for (int t = 0; t < STEPS; t++)
                image += c[r * STEPS + t] * d[t];
            e[i] -= c[r * STEPS + outside[i]] * image;
            for (int j = 0; j < count; j++)
                normal[i][j] += c[r * STEPS + outside[i]] * c[r * STEPS + outside[j]];
        }
    }
    solve(count, normal, e);
    for (int t = 0; t < STEPS; t++)
        moved[t] = d[t];
    for (int i = 0; i < count; i++)
        moved[outside[i]] += e[i];
    return norm(STEPS, c, moved);
}

static dpmf_mechanism *calibrated(const dpmf_workload *workload, const dpmf_strategy *strategy) {
    dpmf_participation *pattern = NULL;
    dpmf_mechanism *plain = NULL, *made = NULL;
    dpmf_sampling none = {0};
    check_ok(dpmf_participation_parse("min-sep:2,3", STEPS, &pattern));
    check_ok(dpmf_mechanism_create(workload, pattern, strategy, NULL, &plain));
    check_ok(dpmf_mechanism_calibrate(plain, 1, 1e-6, &none, NULL, NULL, &made, NULL));
    dpmf_participation_free(pattern);
    dpmf_mechanism_free(plain);
    return made;
}

static void test_windows_of_toeplitz_matrices(void **state) {
    static const char *const texts[] = {"prefix", "momentum:0.9", "decay:0.2"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dpmf_workload *workload = workload_of(texts[i], STEPS);
        dpmf_strategy *strategy = NULL;
        dpmf_account_options how;
        double first = 0;
        check_ok(dpmf_strategy_create("toeplitz", workload, NULL, &strategy));
        double *c = check_strategy_matrix(strategy), *inverse = check_strategy_inverse(strategy);
        dpmf_mechanism *m = calibrated(workload, strategy);
        check_ok(dpmf_mechanism_account_first(m, WINDOW, NULL, &first, &how));
        const double noise = dpmf_mechanism_get(m).sigma * dpmf_mechanism_get(m).evaluation.sensitivity.value;
        double before = 0;
        for (int start = 0; start + WINDOW <= STEPS; start++) {
            double seen = 0, largest = 0;
            for (int one = 0; one < WINDOW; one++)
                for (int other = one; other < WINDOW; other++) {
                    double d[STEPS] = {0};
                    if (other > one && other < one + GAP) continue;
                    d[start + one] = d[start + other] = 1;
                    for (int sign = 0; sign < (other > one ? 2 : 1); sign++) {
                        if (sign) d[start + other] = -1;
                        const double by_window = alone(start, inverse, d);
                        check_near(by_window, distance(start, c, d), 1e-9);
                        assert_true(by_window <= norm(start + WINDOW, c, d) * (1 + 1e-12));
                        seen = fmax(seen, norm(start + WINDOW, c, d));
                        largest = fmax(largest, by_window);
                        assert_true(norm(STEPS, c, d) <=
                                    dpmf_mechanism_get(m).evaluation.sensitivity.value * (1 + 1e-12));
                    }
                }
            check_near(seen * first, noise, 1e-9); /* the account of the first W steps is that of every window */
            if (start > 0) assert_true(largest <= before * (1 + 1e-12) && largest < seen * (1 - 1e-6));
            before = largest;
        }
        dpmf_mechanism_free(m);
        dpmf_strategy_free(strategy);
        dpmf_workload_free(workload);
        free(c);
        free(inverse);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows_of_toeplitz_matrices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
