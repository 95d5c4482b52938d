/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seed noise at length: 4e9 floats and 4e8 doubles, by two threads: moments, Kolmogorov and Smirnov's distance at the
 * edges of bins, a chi-squared sum over the bins, and tails beyond 5, 5.5 and 6 sigma. The key is fixed; had it been
 * drawn at random, a test would fail with the probability that it states: about 1e-6 for the whole program.
 */
#include "base/special.h"
#include "crypto/crypto.h"
#include "support/check.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14, BINS = 16 * 64, THREADS = 2, TAILS = 3 }; /* bins of 1/64 in [-8, 8) */
static const double tails[TAILS] = {5, 5.5, 6};

typedef struct tally {
    const crypto_seed *seed;
    dpmf_precision precision;
    uint64_t first_row, rows, chunks;
    double power[5];
    uint64_t bin[BINS + 2], tail[TAILS];
} tally;

/* Sums of a chunk go to the whole in one addition: rounding stays far below the standard errors. */
static void count_chunk(tally *t, const double *x) {
    double power[5] = {0};
    for (int i = 0; i < CHUNK; i++) {
        const double xx = x[i] * x[i];
        power[1] += x[i];
        power[2] += xx;
        power[3] += xx * x[i];
        power[4] += xx * xx;
        t->bin[x[i] < -8 ? 0 : x[i] >= 8 ? BINS + 1 : (int)((x[i] + 8) * 64) + 1]++;
        if (fabs(x[i]) > tails[0])
            for (int k = 0; k < TAILS; k++)
                t->tail[k] += fabs(x[i]) > tails[k];
    }
    for (int k = 1; k <= 4; k++)
        t->power[k] += power[k];
}

static void *run(void *context) {
    tally *t = context;
    static _Thread_local double x[CHUNK];
    static _Thread_local float f[CHUNK];
    for (uint64_t row = t->first_row; row < t->first_row + t->rows; row++)
        for (uint64_t c = 0; c < t->chunks; c++) {
            if (t->precision == DPMF_FLOAT32) {
                crypto_seed_fill(t->seed, DPMF_FLOAT32, row, c * CHUNK, CHUNK, f);
                for (int i = 0; i < CHUNK; i++)
                    x[i] = (double)f[i];
            } else {
                crypto_seed_fill(t->seed, DPMF_FLOAT64, row, c * CHUNK, CHUNK, x);
            }
            count_chunk(t, x);
        }
    return NULL;
}

/* The smaller of P(N <= count) and P(N >= count) for N Poisson. */
static double poisson_tail(double mean, uint64_t count) {
    double below = 0, above = 0;
    const double spread = 40 * sqrt(mean) + 40;
    for (double k = fmax(0, floor(mean - spread)); k < mean + spread; k++) {
        const double p = exp(k * log(mean) - mean - lgamma(k + 1));
        if (k <= (double)count) below += p;
        if (k >= (double)count) above += p;
    }
    return fmin(below, above);
}

static double lower(double x) {
    return base_normal_cdf(x);
}

static void check_tally(const tally *t, double count) {
    static const double moment[] = {1, 0, 1, 0, 3, 0, 15, 0, 105};
    double seen = 0, distance = 0, chi = 0, cells = 0;
    for (int k = 1; k <= 4; k++) { /* false alarm 4e-8 each */
        const double error = sqrt((moment[2 * k] - moment[k] * moment[k]) / count);
        const double z = (t->power[k] / count - moment[k]) / error;
        print_message("    moment %d: %+.2f standard errors\n", k, z);
        assert_true(fabs(z) < 5.5);
    }
    for (int b = 0; b <= BINS; b++) { /* up to the edge above bin b */
        const double edge = (double)b / 64 - 8;
        seen += (double)t->bin[b];
        distance = fmax(distance, fabs(seen / count - lower(edge)));
        const double expected =
            b == 0 ? 0
                   : count * (lower(-fabs(edge - 1.0 / 128) + 1.0 / 128) - lower(-fabs(edge - 1.0 / 128) - 1.0 / 128));
        if (expected < 25) continue;
        chi += ((double)t->bin[b] - expected) * ((double)t->bin[b] - expected) / expected;
        cells++;
    }
    const double z = (chi - cells) / sqrt(2 * cells);
    print_message("    distance %.3f/sqrt(count), chi squared %+.2f in %.0f cells\n", distance * sqrt(count), z, cells);
    assert_true(distance * sqrt(count) < 2.85); /* false alarm below 2 exp(-2 2.85^2) = 2e-7 */
    assert_true(fabs(z) < 6);                   /* about 1e-8 */
    for (int k = 0; k < TAILS; k++) {
        const double expected = 2 * count * lower(-tails[k]);
        print_message("    beyond %.1f: %llu, expected %.1f\n", tails[k], (unsigned long long)t->tail[k], expected);
        assert_true(poisson_tail(expected, t->tail[k]) > 5e-8); /* 1e-7 each */
    }
}

static void check_stream(dpmf_precision precision, uint64_t rows, uint64_t chunks) {
    const uint8_t key[32] = {3, 1, 4, 1, 5, 9};
    tally *all = calloc(THREADS, sizeof *all);
    pthread_t thread[THREADS];
    crypto_seed *seed = NULL;
    assert_non_null(all);
    check_ok(crypto_seed_open(key, &seed));
    for (uint64_t i = 0; i < THREADS; i++) {
        all[i].seed = seed;
        all[i].precision = precision;
        all[i].first_row = i * rows / THREADS;
        all[i].rows = rows / THREADS;
        all[i].chunks = chunks;
        assert_int_equal(pthread_create(&thread[i], NULL, run, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 1; i < THREADS; i++) {
        for (int k = 1; k <= 4; k++)
            all[0].power[k] += all[i].power[k];
        for (int b = 0; b < BINS + 2; b++)
            all[0].bin[b] += all[i].bin[b];
        for (int k = 0; k < TAILS; k++)
            all[0].tail[k] += all[i].tail[k];
    }
    check_tally(&all[0], (double)rows * (double)chunks * CHUNK);
    crypto_seed_close(seed);
    free(all);
}

static void test_four_billion_floats_are_normal(void **state) {
    (void)state;
    check_stream(DPMF_FLOAT32, 1000, 245); /* 4.01e9 */
}

static void test_four_hundred_million_doubles_are_normal(void **state) {
    (void)state;
    check_stream(DPMF_FLOAT64, 100, 245); /* 4.01e8 */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_four_billion_floats_are_normal),
                                       cmocka_unit_test(test_four_hundred_million_doubles_are_normal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
