/* SPDX-License-Identifier: Apache-2.0 */
/* The Toeplitz kernels: every instruction set gives the same bits, and the values of plain sums. */
#include "kernels/toeplitz/toeplitz.h"

#include "base/memory.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

static double *numbers(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

/* A stable start near what optima look like: 1/(i+1) + shift, a little disturbed. */
static void coefficients(int64_t bands, double shift, uint64_t seed, double *c) {
    for (int64_t i = 0; i < bands; i++)
        c[i] = 1 / (double)(i + 1) + shift * (1 - 0.5 * (double)i / (double)bands) * (1 + 0.05 * check_random(&seed));
}

static void test_toeplitz_kernels_solve_and_sets_agree(void **unused) {
    static const int64_t bands[] = {1, 2, 3, 7, 8, 9, 31, 64, 100}, sizes[] = {1, 7, 8, 64, 250};
    static const char *const names[] = {"ref", "avx2", "avx512"};
    (void)unused;
    for (int k = 0; k < 3; k++) {
        const kernels_toeplitz_set *set = kernels_toeplitz_find(names[k]);
        const kernels_toeplitz_set *ref = kernels_toeplitz_find("ref");
        if (set == NULL) continue;
        assert_string_equal(set->name, names[k]);
        for (int b = 0; b < 9; b++)
            for (int s = 0; s < 5; s++) {
                const int64_t n = sizes[s], y_count = n - n / 3, split = n / 2 / 8 * 8;
                double c[128], *y = numbers(n), *x = numbers(n), *want = numbers(n), sums[128], want_sums[128];
                kernels_toeplitz_table table = {.bands = bands[b]}, ref_table = {.bands = bands[b]};
                uint64_t seed = 3;
                check_ok(base_alloc_doubles(kernels_toeplitz_table_size(bands[b]), "", &table.rows));
                check_ok(base_alloc_doubles(kernels_toeplitz_table_size(bands[b]), "", &ref_table.rows));
                coefficients(bands[b], 0.3, 5, c);
                for (int64_t i = 0; i < n; i++)
                    y[i] = check_random(&seed);
                set->fill(c, &table);
                ref->fill(c, &ref_table);
                set->solve(&table, 0, split, y_count, y, x); /* in two parts */
                set->solve(&table, split, n, y_count, y, x);
                ref->solve(&ref_table, 0, n, y_count, y, want);
                assert_memory_equal(x, want, (size_t)n * sizeof *x);
                for (int64_t i = 0; i < n; i++) {
                    double sum = 0;
                    for (int64_t j = 0; j < bands[b] && j <= i; j++)
                        sum += c[j] * x[i - j];
                    check_near(sum, i < y_count ? y[i] : 0, 1e-13);
                }
                const int64_t lags = bands[b] < n ? bands[b] : n;
                set->correlate(n, lags, y, x, sums);
                ref->correlate(n, lags, y, x, want_sums);
                assert_memory_equal(sums, want_sums, (size_t)lags * sizeof *sums);
                for (int64_t j = 0; j < lags; j++) {
                    double sum = 0;
                    for (int64_t i = j; i < n; i++)
                        sum += y[n - 1 - i] * x[i - j];
                    check_near(sums[j], sum, 1e-12);
                }
                double square = 0;
                for (int64_t i = 0; i < n; i++)
                    square += (2 - 0.001 * (double)i) * y[i] * y[i];
                assert_true(set->squares(n, y, 2, 0.001) == ref->squares(n, y, 2, 0.001));
                check_near(set->squares(n, y, 2, 0.001), square, 1e-13);
                set->reverse(n, y, 2, 0.001, x);
                for (int64_t i = 0; i < n; i++)
                    assert_true(x[n - 1 - i] == (2 - 0.001 * (double)i) * y[i]);
                base_free(table.rows), base_free(ref_table.rows);
                free(y), free(x), free(want);
            }
    }
    assert_null(kernels_toeplitz_find("sse"));
    assert_non_null(kernels_toeplitz_get());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_toeplitz_kernels_solve_and_sets_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
