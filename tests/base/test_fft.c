/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transform: identities that hold for any input, and sums in long double. */
#include "base/fft.h"
#include "base/random.h"
#include "dpmf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const long double two_pi = 6.283185307179586476925286766559005768L;

static double *new_doubles(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(x);
    return x;
}

static double *new_numbers(int64_t count, uint64_t seed) {
    double *x = new_doubles(count);
    for (int64_t i = 0; i < count; i++) {
        x[i] = base_scatter(&seed);
    }
    return x;
}

static double norm(int64_t count, const double *x) {
    long double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        squares += (long double)x[i] * x[i];
    }
    return (double)sqrtl(squares);
}

static double distance(int64_t count, const double *x, const double *y) {
    long double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        squares += ((long double)x[i] - y[i]) * ((long double)x[i] - y[i]);
    }
    return (double)sqrtl(squares);
}

static base_fft *new_fft(int64_t length) {
    base_fft *fft = NULL;
    assert_int_equal(base_fft_create(length, &fft), DPMF_OK);
    assert_int_equal(base_fft_length(fft), length);
    return fft;
}

static void unpack(int64_t length, const double *packed, int64_t f, double *re, double *im) {
    *re = f == 0 ? packed[0] : f == length / 2 ? packed[1] : packed[2 * f];
    *im = f == 0 || f == length / 2 ? 0 : packed[2 * f + 1];
}

/* X_f by its definition. */
static void sum_directly(int64_t length, const double *x, int64_t f, long double *re, long double *im) {
    *re = *im = 0;
    for (int64_t t = 0; t < length; t++) {
        const long double angle = two_pi * (long double)(f * t % length) / (long double)length;
        *re += x[t] * cosl(angle);
        *im -= x[t] * sinl(angle);
    }
}

static void test_forward_is_its_definition(void **state) {
    (void)state;
    for (int64_t length = 2; length <= 1024; length *= 2) {
        base_fft *fft = new_fft(length);
        double *x = new_numbers(length, (uint64_t)length), *spectrum = new_doubles(length);
        memcpy(spectrum, x, (size_t)length * sizeof(double));
        base_fft_forward(fft, spectrum);
        const double tolerance = 1e-15 * norm(length, x);
        for (int64_t f = 0; f <= length / 2; f++) {
            long double re, im;
            double got_re, got_im;
            sum_directly(length, x, f, &re, &im);
            unpack(length, spectrum, f, &got_re, &got_im);
            assert_true(hypot((double)(re - got_re), (double)(im - got_im)) <= tolerance);
        }
        free(x);
        free(spectrum);
        base_fft_free(fft);
    }
}

/* Lengths whose half is and is not a power of four, with and without the tiled permutation; a few frequencies each. */
static void test_long_transforms_are_their_definition(void **state) {
    (void)state;
    for (int64_t length = 1 << 11; length <= 1 << 18; length *= 2) {
        base_fft *fft = new_fft(length);
        double *x = new_numbers(length, (uint64_t)length), *spectrum = new_doubles(length);
        memcpy(spectrum, x, (size_t)length * sizeof(double));
        base_fft_forward(fft, spectrum);
        const int64_t frequencies[] = {0, 1, length / 2, length / 2 - 1, length / 3, length / 8 + 5};
        for (size_t i = 0; i < sizeof frequencies / sizeof frequencies[0]; i++) {
            long double re, im;
            double got_re, got_im;
            sum_directly(length, x, frequencies[i], &re, &im);
            unpack(length, spectrum, frequencies[i], &got_re, &got_im);
            assert_true(hypot((double)(re - got_re), (double)(im - got_im)) <= 2e-15 * norm(length, x));
        }
        free(x);
        free(spectrum);
        base_fft_free(fft);
    }
}

static void test_an_impulse_gives_a_wave(void **state) {
    (void)state;
    static const int64_t lengths[] = {2, 4, 8, 64, 2048, 1 << 16};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const int64_t length = lengths[i];
        base_fft *fft = new_fft(length);
        double *x = new_doubles(length);
        const int64_t places[] = {0, 1, length / 2, length - 1, length / 3};
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            memset(x, 0, (size_t)length * sizeof(double));
            x[places[p]] = 1;
            base_fft_forward(fft, x);
            for (int64_t f = 0; f <= length / 2; f++) {
                double re, im;
                unpack(length, x, f, &re, &im);
                const long double angle = two_pi * (long double)(f * places[p] % length) / (long double)length;
                assert_true(fabsl(re - cosl(angle)) <= 1e-15L && fabsl(im + sinl(angle)) <= 1e-15L);
            }
        }
        free(x);
        base_fft_free(fft);
    }
}

/* A delay by one turns X_f into X_f exp(-2 pi i f / length). */
static void test_a_shift_is_a_phase(void **state) {
    (void)state;
    const int64_t length = 1 << 15;
    base_fft *fft = new_fft(length);
    double *x = new_numbers(length, 3), *shifted = new_doubles(length);
    const double tolerance = 4e-15 * norm(length, x);
    memcpy(shifted + 1, x, (size_t)(length - 1) * sizeof(double));
    shifted[0] = x[length - 1];
    base_fft_forward(fft, x);
    base_fft_forward(fft, shifted);
    for (int64_t f = 0; f <= length / 2; f++) {
        double a, b, c, d;
        unpack(length, x, f, &a, &b);
        unpack(length, shifted, f, &c, &d);
        const double cosine = (double)cosl(two_pi * (long double)f / (long double)length);
        const double sine = (double)sinl(two_pi * (long double)f / (long double)length);
        assert_true(hypot(c - (a * cosine + b * sine), d - (b * cosine - a * sine)) <= tolerance);
    }
    free(x);
    free(shifted);
    base_fft_free(fft);
}

static void test_transforms_are_linear_keep_energy_and_invert(void **state) {
    (void)state;
    for (int64_t length = 2; length <= 1 << 20; length *= 2) {
        base_fft *fft = new_fft(length);
        double *x = new_numbers(length, 5), *y = new_numbers(length, 6), *sum = new_doubles(length);
        double *kept = new_doubles(length);
        for (int64_t i = 0; i < length; i++) {
            sum[i] = 2 * x[i] - 0.5 * y[i];
        }
        memcpy(kept, sum, (size_t)length * sizeof(double));
        const double size = norm(length, sum);
        base_fft_forward(fft, x);
        base_fft_forward(fft, y);
        base_fft_forward(fft, sum);
        const double spectral_size = size * sqrt((double)length);
        for (int64_t i = 0; i < length; i++) {
            x[i] = 2 * x[i] - 0.5 * y[i];
        }
        assert_true(distance(length, x, sum) <= 2e-15 * spectral_size);
        /* Parseval: every pair but the first stands for two frequencies. */
        const double energy = 2 * pow(norm(length, sum), 2) - sum[0] * sum[0] - sum[1] * sum[1];
        assert_true(fabs(sqrt(energy) / spectral_size - 1) <= 1e-15);
        memcpy(sum, kept, (size_t)length * sizeof(double));
        base_fft_forward_unordered(fft, length, sum);
        base_fft_inverse_unordered(fft, length, sum);
        assert_true(distance(length, sum, kept) <= 1e-15 * size);
        free(x);
        free(y);
        free(sum);
        free(kept);
        base_fft_free(fft);
    }
}

/* The unordered spectrum has the same numbers, for the transform's own length and for shorter ones. */
static void test_unordered_spectra_are_the_same_up_to_order(void **state) {
    (void)state;
    base_fft *longest = new_fft(1 << 13);
    for (int64_t length = 2; length <= 1 << 13; length *= 2) {
        base_fft *fft = new_fft(length);
        double *x = new_numbers(length, 7), *ordered = new_doubles(length), *unordered = new_doubles(length);
        memcpy(ordered, x, (size_t)length * sizeof(double));
        memcpy(unordered, x, (size_t)length * sizeof(double));
        base_fft_forward(fft, ordered);
        base_fft_forward_unordered(longest, length, unordered);
        assert_true(ordered[0] == unordered[0] && ordered[1] == unordered[1]);
        for (int64_t slot = 1; slot < length / 2; slot++) {
            int64_t f = 0; /* the bits of `slot` in the opposite order */
            for (int64_t bit = 1; bit < length / 2; bit *= 2) {
                f = 2 * f + (slot / bit) % 2;
            }
            assert_true(unordered[2 * slot] == ordered[2 * f] && unordered[2 * slot + 1] == ordered[2 * f + 1]);
        }
        base_fft_inverse_unordered(longest, length, unordered);
        assert_true(distance(length, unordered, x) <= 1e-15 * norm(length, x));
        free(x);
        free(ordered);
        free(unordered);
        base_fft_free(fft);
    }
    base_fft_free(longest);
}

static void test_lengths_out_of_range_are_refused(void **state) {
    (void)state;
    static const int64_t bad[] = {INT64_MIN, -2, 0, 1, 3, 6, 1000, ((int64_t)1 << 40) + 1, (int64_t)1 << 41, INT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        base_fft *fft = NULL;
        assert_int_equal(base_fft_create(bad[i], &fft), DPMF_ERROR_ARGUMENT);
        assert_null(fft);
    }
    base_fft_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_is_its_definition),
        cmocka_unit_test(test_long_transforms_are_their_definition),
        cmocka_unit_test(test_an_impulse_gives_a_wave),
        cmocka_unit_test(test_a_shift_is_a_phase),
        cmocka_unit_test(test_transforms_are_linear_keep_energy_and_invert),
        cmocka_unit_test(test_unordered_spectra_are_the_same_up_to_order),
        cmocka_unit_test(test_lengths_out_of_range_are_refused),
    };
    return cmocka_run_group_tests_name("fft", tests, NULL, NULL);
}
