/* SPDX-License-Identifier: Apache-2.0 */
/* The two inner loops of optimum/epochs/node.c, for small row-major blocks; the same bits on every instruction set. */
#ifndef DPMF_KERNELS_BLOCK_H
#define DPMF_KERNELS_BLOCK_H

#include <stdint.h>

enum { DPMF_I_KERNELS_BLOCK_LANES = 8 }; /* `columns` is always a multiple of it */

typedef struct dpmf_i_kernels_block_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    /* (pivot; m) -= tau (lead; x) (lead; x)' (pivot; m): one Householder reflection of a row and the rows of m */
    void (*reflect)(int64_t rows, int64_t columns, double lead, const double *x, double tau, double *pivot, double *m,
                    int64_t stride);
    /* c = a b, a rows x inner, b inner x columns */
    void (*multiply)(int64_t rows, int64_t inner, int64_t columns, const double *a, int64_t a_stride, const double *b,
                     int64_t b_stride, double *c, int64_t c_stride);
} dpmf_i_kernels_block_set;

/* The set for this machine; one by name, or NULL if this machine or build does not have it (kernels/isa.h). */
const dpmf_i_kernels_block_set *dpmf_i_kernels_block_get(void);
const dpmf_i_kernels_block_set *dpmf_i_kernels_block_find(const char *name);

static inline int64_t dpmf_i_kernels_block_pad(int64_t columns) {
    return (columns + DPMF_I_KERNELS_BLOCK_LANES - 1) / DPMF_I_KERNELS_BLOCK_LANES * DPMF_I_KERNELS_BLOCK_LANES;
}

#endif
