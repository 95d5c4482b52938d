/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seed noise, the transform alone: its error against long double on a dense sample of words, small words and their
 * extension, all sets alike; and the distribution of the numbers.
 *
 * Keys are fixed; had they been drawn at random, a statistical test would fail with the probability that it states.
 */
#include "base/random.h"
#include "base/special.h"
#include "crypto/crypto.h"
#include "kernels/seed/seed.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"ref", "avx2", "vaes", "avx512"};
enum { SETS = 4 };

/* The specification of the words without rounding: u, and the angle word of `bits` bits. */
static void exact_pair(long double u, uint64_t a, int bits, long double *x, long double *y) {
    const uint64_t top = bits == 32 ? a << 32 : a; /* the word at the top of 64 bits */
    const uint64_t fraction = top << 2 | (bits == 32 ? (uint64_t)2 << 32 : 2);
    const long double t = (long double)(int64_t)fraction * 0x1p-63L, quarter = acosl(-1.0L) / 4;
    const long double radius = sqrtl(u < 0.5L ? -2 * logl(u) : -2 * log1pl(u - 1));
    const long double s = radius * sinl(quarter * t), c = (top >> 63 ? -1 : 1) * radius * cosl(quarter * t);
    *x = top >> 62 & 1 ? s : c;
    *y = top >> 62 & 1 ? c : s;
}

static double relative(long double got, long double want) {
    return (double)fabsl((got - want) / want);
}

/* ---- floats ---- */

typedef struct float_case {
    uint32_t word, angle, more[2];
} float_case;

/* 32 cases through one set: 16 per unit. */
static void run_floats(const kernels_seed_set *set, const float_case *cases, float *x, float *y) {
    uint32_t words[64], more[64][4];
    float out[64];
    memset(more, 0xAA, sizeof more); /* numbers that are not requested must not matter */
    for (int i = 0; i < 32; i++) {
        const int at = i / 16 * 32 + i % 16;
        words[at] = cases[i].word;
        words[at + 16] = cases[i].angle;
        memcpy(more[at], cases[i].more, sizeof cases[i].more);
    }
    const kernels_seed_words given = {(const uint8_t *)words, (const uint8_t *)more};
    set->floats_of(&given, out);
    for (int i = 0; i < 32; i++) {
        const int at = i / 16 * 32 + i % 16;
        x[i] = out[at];
        y[i] = out[at + 16];
    }
}

static long double float_u(const float_case *c) {
    if (c->word >> 20 != 0) return (long double)c->word * 0x1p-32L;
    return (long double)c->word * 0x1p-32L + (long double)(c->more[0] >> 8) * 0x1p-56L +
           ((long double)(c->more[1] >> 8) + 0.5L) * 0x1p-80L;
}

/* All sets agree; the largest relative error of the 64 numbers. */
static double check_floats(const float_case *cases) {
    float x[SETS][32], y[SETS][32];
    double worst = 0;
    for (int s = 0; s < SETS; s++) {
        const kernels_seed_set *set = kernels_seed_find(names[s]);
        if (set == NULL) continue;
        run_floats(set, cases, x[s], y[s]);
        assert_memory_equal(x[s], x[0], sizeof x[0]);
        assert_memory_equal(y[s], y[0], sizeof y[0]);
    }
    for (int i = 0; i < 32; i++) {
        long double wx, wy;
        exact_pair(float_u(&cases[i]), cases[i].angle, 32, &wx, &wy);
        worst = fmax(worst, fmax(relative(x[0][i], wx), relative(y[0][i], wy)));
    }
    return worst;
}

/* The sample below gives 2^-21.45 and 2^-50.90 (DPMF_VERBOSE=1 prints it); a denser one has little to add. */
static const double float_bound = 0x1p-21, double_bound = 0x1p-50;

static void test_floats_are_within_their_error_bound(void **state) {
    (void)state;
    uint64_t random = 1;
    double worst = 0;
    for (int i = 0; i < 20000; i++) {
        float_case cases[32];
        for (int j = 0; j < 32; j++) {
            const uint64_t r = base_splitmix(&random), q = base_splitmix(&random);
            uint32_t word = (uint32_t)r;
            if (i % 4 == 1) word >>= q % 32;          /* small u at all scales, and extended words */
            if (i % 4 == 2) word = ~(word >> q % 32); /* u near 1 */
            uint32_t angle = (uint32_t)(r >> 32);
            if (i % 4 == 3) angle = (angle & 0xC0000000u) | (angle & 0x3FFFFFFFu) >> (q >> 8) % 30; /* small t */
            cases[j] = (float_case){word, angle, {(uint32_t)(q >> 32), (uint32_t)base_splitmix(&random)}};
        }
        worst = fmax(worst, check_floats(cases));
    }
    if (getenv("DPMF_VERBOSE") != NULL) print_message("largest relative error of floats: 2^%.2f\n", log2(worst));
    assert_true(worst < float_bound);
    assert_true(worst > 0x1p-25); /* or nothing was measured */
}

/* The smallest and largest words, the threshold from both sides, and extensions that are all zeros or ones. */
static void test_extreme_words_of_floats_are_within_the_bound(void **state) {
    (void)state;
    static const uint32_t words[] = {0,
                                     1,
                                     2,
                                     (1u << 20) - 1,
                                     1u << 20,
                                     (1u << 20) + 1,
                                     1u << 24,
                                     1u << 31,
                                     (1u << 31) - 1,
                                     (1u << 31) + 1,
                                     0xFFFFFFFEu,
                                     0xFFFFFFFFu};
    static const uint32_t angles[] = {0,           0xFFFFFFFFu, 0x3FFFFFFFu, 0x40000000u,
                                      0x1FFFFFFFu, 0x20000000u, 0x80000000u, 0xC0000000u};
    static const uint32_t more[][2] = {{0, 0}, {0, 0xFFFFFFFFu}, {0, 255}, {256, 0}, {0xFFFFFFFFu, 0xFFFFFFFFu}};
    float_case cases[32];
    int n = 0;
    float largest = 0, smallest = 1;
    for (int w = 0; w < 12; w++)
        for (int a = 0; a < 8; a++)
            for (int m = 0; m < 5; m++) {
                cases[n++ % 32] = (float_case){words[w], angles[a], {more[m][0], more[m][1]}};
                if (n % 32 != 0) continue;
                float x[32], y[32];
                assert_true(check_floats(cases) < float_bound);
                run_floats(kernels_seed_find("ref"), cases, x, y);
                for (int i = 0; i < 32; i++) {
                    largest = fmaxf(largest, fmaxf(fabsf(x[i]), fabsf(y[i])));
                    smallest = fminf(smallest, hypotf(x[i], y[i]));
                }
            }
    assert_int_equal(n % 32, 0);
    check_near(largest, sqrt(162 * log(2)), 1e-6); /* u = 2^-81: 10.6 sigma */
    check_near(smallest * 0x1p16, sqrt(2), 1e-6);  /* u = 1 - 2^-32 */
}

/* Above the threshold the bits more do not matter; below it they do. */
static void test_more_bits_matter_only_below_the_threshold(void **state) {
    (void)state;
    for (int s = 0; s < SETS; s++) {
        const kernels_seed_set *set = kernels_seed_find(names[s]);
        float_case cases[32] = {{0}};
        float x[2][32], y[2][32];
        if (set == NULL) continue;
        for (int i = 0; i < 32; i++)
            cases[i].word = (i % 2 ? 1u << 20 : (1u << 10)) + (uint32_t)i;
        run_floats(set, cases, x[0], y[0]);
        for (int i = 0; i < 32; i++)
            cases[i].more[0] = cases[i].more[1] = 0xFFFFFFFFu;
        run_floats(set, cases, x[1], y[1]);
        for (int i = 0; i < 32; i++)
            assert_int_equal(x[0][i] != x[1][i], i % 2 == 0);
    }
}

/* ---- doubles ---- */

typedef struct double_case {
    uint64_t word, angle, more;
} double_case;

static void run_doubles(const kernels_seed_set *set, const double_case *cases, double *x, double *y) {
    uint64_t words[64], more[64][2];
    double out[64];
    memset(more, 0xAA, sizeof more);
    for (int i = 0; i < 32; i++) {
        const int at = i / 8 * 16 + i % 8;
        words[at] = cases[i].word;
        words[at + 8] = cases[i].angle;
        more[at][0] = cases[i].more;
    }
    const kernels_seed_words given = {(const uint8_t *)words, (const uint8_t *)more};
    set->doubles_of(&given, out);
    for (int i = 0; i < 32; i++) {
        const int at = i / 8 * 16 + i % 8;
        x[i] = out[at];
        y[i] = out[at + 8];
    }
}

/* -2^64 u fits long double's 64 bits; near 1 it is u - 1 that matters, which is exact as well. */
static long double double_u(const double_case *c) {
    if (c->word >> 49 != 0) return (long double)c->word * 0x1p-64L;
    return (long double)c->word * 0x1p-64L + ((long double)c->more + 0.5L) * 0x1p-128L;
}

static double check_doubles(const double_case *cases) {
    double x[SETS][32], y[SETS][32], worst = 0;
    for (int s = 0; s < SETS; s++) {
        const kernels_seed_set *set = kernels_seed_find(names[s]);
        if (set == NULL) continue;
        run_doubles(set, cases, x[s], y[s]);
        assert_memory_equal(x[s], x[0], sizeof x[0]);
        assert_memory_equal(y[s], y[0], sizeof y[0]);
    }
    for (int i = 0; i < 32; i++) {
        long double wx, wy;
        exact_pair(double_u(&cases[i]), cases[i].angle, 64, &wx, &wy);
        worst = fmax(worst, fmax(relative(x[0][i], wx), relative(y[0][i], wy)));
    }
    return worst;
}

static void test_doubles_are_within_their_error_bound(void **state) {
    (void)state;
    uint64_t random = 2;
    double worst = 0;
    for (int i = 0; i < 10000; i++) {
        double_case cases[32];
        for (int j = 0; j < 32; j++) {
            const uint64_t r = base_splitmix(&random), q = base_splitmix(&random);
            uint64_t word = r, angle = base_splitmix(&random);
            if (i % 4 == 1) word >>= q % 64;
            if (i % 4 == 2) word = ~(word >> q % 64);
            if (i % 4 == 3) angle = (angle & (uint64_t)3 << 62) | (angle & UINT64_MAX >> 2) >> (q >> 8) % 62;
            cases[j] = (double_case){word, angle, base_splitmix(&random)};
        }
        worst = fmax(worst, check_doubles(cases));
    }
    if (getenv("DPMF_VERBOSE") != NULL) print_message("largest relative error of doubles: 2^%.2f\n", log2(worst));
    assert_true(worst < double_bound);
    assert_true(worst > 0x1p-54);
}

static void test_extreme_words_of_doubles_are_within_the_bound(void **state) {
    (void)state;
    const uint64_t one = 1;
    const uint64_t words[] = {0, 1, (one << 49) - 1, one << 49, one << 53, one << 63, (one << 63) - 1, UINT64_MAX};
    const uint64_t angles[] = {0, UINT64_MAX, one << 62, UINT64_MAX >> 2, UINT64_MAX >> 3, one << 61, one << 63, 5};
    const uint64_t more[] = {0, 1, UINT64_MAX, 0xFFFFFFFFu};
    double_case cases[32];
    double largest = 0;
    int n = 0;
    for (int w = 0; w < 8; w++)
        for (int a = 0; a < 8; a++)
            for (int m = 0; m < 4; m++) {
                cases[n++ % 32] = (double_case){words[w], angles[a], more[m]};
                if (n % 32 != 0) continue;
                double x[32], y[32];
                assert_true(check_doubles(cases) < double_bound);
                run_doubles(kernels_seed_find("ref"), cases, x, y);
                for (int i = 0; i < 32; i++)
                    largest = fmax(largest, fmax(fabs(x[i]), fabs(y[i])));
            }
    check_near(largest, sqrt(258 * log(2)), 1e-12); /* u = 2^-129: 13.4 sigma */
}

/* ---- the distribution ---- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * The first eight moments within 5.5 of their standard errors (false alarm 4e-8 each), and Kolmogorov and Smirnov's
 * distance below 2.85/sqrt(count) (false alarm 2 exp(-2 2.85^2) = 2e-7). Sorts x.
 */
static void check_normal(double *x, size_t count) {
    static const double moment[] = {1, 0, 1, 0, 3, 0, 15, 0, 105, 0, 945, 0, 10395, 0, 135135, 0, 2027025};
    double distance = 0;
    for (int k = 1; k <= 8; k++) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += pow(x[i], k);
        const double error = sqrt((moment[2 * k] - moment[k] * moment[k]) / (double)count);
        assert_true(fabs(sum / (double)count - moment[k]) < 5.5 * error);
    }
    qsort(x, count, sizeof *x, ascending);
    for (size_t i = 0; i < count; i++) {
        const double phi = base_normal_cdf(x[i]);
        distance =
            fmax(distance, fmax(fabs(phi - (double)i / (double)count), fabs(phi - (double)(i + 1) / (double)count)));
    }
    assert_true(distance * sqrt((double)count) < 2.85);
}

static void test_a_million_seeds_are_normal_and_uncorrelated(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    double *x = malloc(COUNT * sizeof(double));
    float *f = malloc(COUNT * sizeof(float));
    const uint8_t key[32] = {2, 7, 1, 8, 2, 8};
    crypto_seed *seed = NULL;
    assert_true(x != NULL && f != NULL);
    check_ok(crypto_seed_open(key, &seed));
    crypto_seed_fill(seed, DPMF_FLOAT32, 7, 0, COUNT, f);
    for (int i = 0; i < COUNT; i++)
        x[i] = (double)f[i];
    double products[3] = {0}; /* X Y of a pair, X^2 Y^2, neighbours */
    for (int i = 0; i < COUNT; i += 32)
        for (int j = i; j < i + 16; j++) {
            products[0] += x[j] * x[j + 16];
            products[1] += (x[j] * x[j] - 1) * (x[j + 16] * x[j + 16] - 1);
            products[2] += x[j] * x[j + 1];
        }
    /* 5.5 standard errors of half a million products; X^2 - 1 has variance 2. False alarm 4e-8 each. */
    assert_true(fabs(products[0]) < 5.5 * sqrt(COUNT / 2));
    assert_true(fabs(products[1]) < 5.5 * 2 * sqrt(COUNT / 2));
    assert_true(fabs(products[2]) < 5.5 * sqrt(COUNT / 2));
    check_normal(x, COUNT);
    crypto_seed_fill(seed, DPMF_FLOAT64, 7, 0, COUNT, x);
    check_normal(x, COUNT);
    crypto_seed_close(seed);
    free(x);
    free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_are_within_their_error_bound),
        cmocka_unit_test(test_extreme_words_of_floats_are_within_the_bound),
        cmocka_unit_test(test_more_bits_matter_only_below_the_threshold),
        cmocka_unit_test(test_doubles_are_within_their_error_bound),
        cmocka_unit_test(test_extreme_words_of_doubles_are_within_the_bound),
        cmocka_unit_test(test_a_million_seeds_are_normal_and_uncorrelated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
