/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact products for sums that must not round, compiled once per set. Products and partial sums are multiples of one power of
 * two and fit a double: nothing rounds in any order, and fused operations, which are used, give the same bits.
 */
#ifndef TRAIN_KERNELS_EXACT_H
#define TRAIN_KERNELS_EXACT_H

#include <stdint.h>

/*
 * c[i,j] <- c[i,j] + per_grid (a[0,i] b[0,j] + a[1,i] b[1,j] + ...), i < rows, j < columns: row p of a begins at
 * a + p * a_stride, row p of b at b[p] + b_first, row i of c at c + i * c_stride. The caller guarantees that every
 * product times per_grid is a whole number, and that every sum of them is below 2^51.
 */
typedef struct kernels_exact {
    int64_t rows, columns, terms;
    const double *a;
    int64_t a_stride;
    const float *const *b;
    int64_t b_first;
    double per_grid; /* a power of two */
    int64_t *c;
    int64_t c_stride;
} kernels_exact;

typedef struct kernels_exact_set {
    const char *name; /* as in kernels/ladder/ladder.h */
    void (*multiply)(const kernels_exact *job);
} kernels_exact_set;

const kernels_exact_set *kernels_exact_get(void);
const kernels_exact_set *kernels_exact_find(const char *name);

#endif
