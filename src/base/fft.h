/* SPDX-License-Identifier: Apache-2.0 */
/* Real fast Fourier transform of power-of-two length; convolution and power-series inverse by it. */
#ifndef DPMF_BASE_FFT_H
#define DPMF_BASE_FFT_H

#include "base/status.h"

typedef struct base_fft base_fft; /* immutable tables for one length: may be shared between threads */

/* length: a power of two, 2 to 2^40. */
DPMF_MUST_CHECK dpmf_status base_fft_create(int64_t length, base_fft **out);
void base_fft_free(base_fft *fft);
int64_t base_fft_length(const base_fft *fft);

/* In place: X_f = sum_t x_t exp(-2 pi i f t / length), packed as [X_0, X_{length/2}, Re X_1, Im X_1, Re X_2, Im X_2, ...]. */
void base_fft_forward(const base_fft *fft, double *data);

/* The same and its inverse, but past the first two numbers in no order; length: a power of two up to that of `fft`. */
void base_fft_forward_unordered(const base_fft *fft, int64_t length, double *data);
void base_fft_inverse_unordered(const base_fft *fft, int64_t length, double *data);

/* out[i] = sum_j a[j] b[i-j], i < count; direct where that is cheaper or a factor has at most 64 terms. out overlaps none. */
DPMF_MUST_CHECK dpmf_status base_convolve(int64_t a_count, const double *a, int64_t b_count, const double *b,
                                          int64_t count, double *out);

/* The first `count` terms of 1/a as a power series; a[0] != 0; terms of a past a_count are 0. Newton's iteration. */
DPMF_MUST_CHECK dpmf_status base_series_inverse(int64_t a_count, const double *a, int64_t count, double *out);

#endif
