/* SPDX-License-Identifier: Apache-2.0 */
/* Banded Toeplitz recursions, compiled once per instruction set from body.inc with identical results (one order of sums). */
#ifndef DPMF_KERNELS_TOEPLITZ_H
#define DPMF_KERNELS_TOEPLITZ_H

#include <stdint.h>

enum { KERNELS_TOEPLITZ_LANES = 8 };

/*
 * C x = y for eight rows at once: with L the first 8 x 8 block of C,
 *
 *     x_{i..i+7} = sum_{j<8} y_{i+j} head_j - sum_{m=1..bands-1} x_{i-m} past_m,
 *     head_j = L^-1 e_j,   past_m = L^-1 (c_m, ..., c_{m+7})'
 *
 * so that no row waits for the one before it.
 */
typedef struct kernels_toeplitz_table {
    int64_t bands;
    double *rows; /* 8 x (8 + bands) numbers, 64-byte aligned: head_0..7, unused, past_1..bands-1 */
} kernels_toeplitz_table;

int64_t kernels_toeplitz_table_size(int64_t bands); /* of `rows` */

typedef struct kernels_toeplitz_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    /* The table of c (table->bands coefficients, c_0 != 0). */
    void (*fill)(const double *c, kernels_toeplitz_table *table);
    /* Rows first..last-1 of C x = y, x known before; first is a multiple of 8; y_i = 0 from y_count on. x != y. */
    void (*solve)(const kernels_toeplitz_table *table, int64_t first, int64_t last, int64_t y_count, const double *y,
                  double *x);
    /* out_j = sum_{i=j..n-1} v_i w_{i-j} for j < lags, lags <= n; v is given from its end: reversed_i = v_{n-1-i}. */
    void (*correlate)(int64_t n, int64_t lags, const double *reversed, const double *w, double *out);
    /* sum_{i<n} (weight - less i) x_i^2 */
    double (*squares)(int64_t n, const double *x, double weight, double less);
    /* y_{n-1-i} = (weight - less i) x_i; x != y */
    void (*reverse)(int64_t n, const double *x, double weight, double less, double *y);
} kernels_toeplitz_set;

const kernels_toeplitz_set *kernels_toeplitz_get(void);
const kernels_toeplitz_set *kernels_toeplitz_find(const char *name);

#endif
