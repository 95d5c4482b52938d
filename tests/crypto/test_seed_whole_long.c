/* SPDX-License-Identifier: Apache-2.0 */
/* 10^7 exactly rounded normal numbers of small grids against differences of the normal distribution function. */
#include "base/special.h"
#include "crypto/crypto.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

/*
 * At each scale the cells -E..E, both ends with what lies beyond, E such that the ends expect some 300: chi-squared of 2E
 * degrees of freedom below 2E + 2 sqrt(2E x) + 2x, x = 16.1 (false alarm below e^-x = 1e-7 each: Laurent and Massart 2000,
 * Lemma 1).
 */
static void test_ten_million_numbers_have_their_probabilities(void **state) {
    enum { COUNT = 64 * 160000 };
    static const double scales[] = {0.4, 1.3, 25.7};
    double *row = malloc(COUNT * sizeof(double));
    const uint8_t key[32] = {9, 9, 2};
    crypto_seed *seed = NULL;
    (void)state;
    assert_non_null(row);
    check_ok(crypto_seed_open(key, &seed));
    for (int s = 0; s < 3; s++) {
        const double scale = scales[s], x = 16.1;
        const int ends = (int)(4 * scale + 0.5), cells = 2 * ends + 1;
        double *seen = calloc((size_t)cells, sizeof(double)), chi = 0;
        crypto_seed_fill_wholes(seed, scale, (uint64_t)s, 0, COUNT, row);
        for (int i = 0; i < COUNT; i++)
            seen[(int)fmax(-ends, fmin(ends, row[i])) + ends]++;
        for (int k = -ends; k <= ends; k++) {
            const double from = k == -ends ? 0 : base_normal_cdf((k - 0.5) / scale),
                         to = k == ends ? 1 : base_normal_cdf((k + 0.5) / scale), want = COUNT * (to - from);
            chi += (seen[k + ends] - want) * (seen[k + ends] - want) / want;
        }
        assert_true(chi < 2 * ends + 2 * sqrt(2 * ends * x) + 2 * x);
        free(seen);
    }
    crypto_seed_close(seed);
    free(row);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ten_million_numbers_have_their_probabilities)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
