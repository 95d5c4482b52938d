/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of optimum/epochs: products of small row-major blocks, triangular factors by shifts. Every set gives the same bits. */
#ifndef DPMF_KERNELS_BLOCK_H
#define DPMF_KERNELS_BLOCK_H

#include <stdint.h>

enum { KERNELS_BLOCK_LANES = 8 }; /* `columns` of multiply is always a multiple of it */

/* One number for each of several shifts: blocks of these are row-major too, and `stride` counts them. */
enum { KERNELS_BLOCK_SIDE = 4 };
typedef double kernels_block_side __attribute__((vector_size(32), aligned(8), may_alias));

typedef struct kernels_block_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    /* c = a b, a rows x inner, b inner x columns */
    void (*multiply)(int64_t rows, int64_t inner, int64_t columns, const double *a, int64_t a_stride, const double *b,
                     int64_t b_stride, double *c, int64_t c_stride);
    /* A Householder reflection of pivot and m clears m's first column; `x`: work space. Columns of zeros may be left out. */
    void (*eliminate)(int64_t rows, int64_t columns, kernels_block_side *x, kernels_block_side *pivot,
                      kernels_block_side *m, int64_t stride);
    /* c = a b', a rows x inner, b columns x inner */
    void (*multiply_rows)(int64_t rows, int64_t inner, int64_t columns, const kernels_block_side *a, int64_t a_stride,
                          const kernels_block_side *b, int64_t b_stride, kernels_block_side *c, int64_t c_stride);
    /* b = r^-1 b, r rows x rows, upper triangular, b rows x columns */
    void (*solve_upper)(int64_t rows, int64_t columns, const kernels_block_side *r, int64_t r_stride,
                        kernels_block_side *b, int64_t b_stride);
} kernels_block_set;

const kernels_block_set *kernels_block_get(void);
const kernels_block_set *kernels_block_find(const char *name);

static inline int64_t kernels_block_pad(int64_t columns) {
    return (columns + KERNELS_BLOCK_LANES - 1) / KERNELS_BLOCK_LANES * KERNELS_BLOCK_LANES;
}

#endif
