/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real fast Fourier transform of power-of-two length, and what is built on it: convolution and power-series inverse.
 */
#ifndef DPMF_BASE_FFT_H
#define DPMF_BASE_FFT_H

#include "base/status.h"

typedef struct dpmf_i_base_fft dpmf_i_base_fft; /* immutable tables for one length: may be shared between threads */

/* length: a power of two, 2 to 2^40. */
DPMF_MUST_CHECK dpmf_status dpmf_i_base_fft_create(int64_t length, dpmf_i_base_fft **out);
void dpmf_i_base_fft_free(dpmf_i_base_fft *fft);
int64_t dpmf_i_base_fft_length(const dpmf_i_base_fft *fft);

/*
 * In place, length doubles: gives X_f = sum_t x_t exp(-2 pi i f t / length) packed as
 * [X_0, X_{length/2}, Re X_1, Im X_1, Re X_2, Im X_2, ...].
 */
void dpmf_i_base_fft_forward(const dpmf_i_base_fft *fft, double *data);

/*
 * The same without the last step, which puts the frequencies in order: for products of spectra, where their order does
 * not matter; and its inverse, exact up to rounding (it divides by length). X_0 and X_{length/2} are still the first two numbers. `length` is a power of two from 2 to the
 * length that `fft` was made for.
 */
void dpmf_i_base_fft_forward_unordered(const dpmf_i_base_fft *fft, int64_t length, double *data);
void dpmf_i_base_fft_inverse_unordered(const dpmf_i_base_fft *fft, int64_t length, double *data);

/* a = a * b pointwise for two packed spectra, both in order or both not; b may be a. */
void dpmf_i_base_fft_multiply(int64_t length, double *a, const double *b);

/*
 * out[i] = sum_j a[j] b[i-j] for i < count (the first `count` terms of the product); direct where that is cheaper
 * or the shorter factor has at most 64 terms. out may not overlap a or b.
 */
DPMF_MUST_CHECK dpmf_status dpmf_i_base_convolve(int64_t a_count, const double *a, int64_t b_count, const double *b,
                                                 int64_t count, double *out);

/* The first `count` terms of 1/a as a power series; a[0] != 0; terms of a past a_count are 0. Newton's iteration. */
DPMF_MUST_CHECK dpmf_status dpmf_i_base_series_inverse(int64_t a_count, const double *a, int64_t count, double *out);

#endif
