/* SPDX-License-Identifier: Apache-2.0 */
/* Diagonals of (K + s_j V)^-1 for eight shifts at once: compiled per instruction set from body.inc with identical results. */
#ifndef DPMF_KERNELS_LADDER_H
#define DPMF_KERNELS_LADDER_H

#include <stdint.h>

enum { KERNELS_LADDER_LANES = 8 };

/*
 * K = A^-1 diag(g) A^-T with A^-1 of one sub-diagonal: a_i on the diagonal, -c_i below. diagonal_i = a_i^2 g_i,
 * below_i = c_i^2 g_{i-1} (below_0 unused). out_i = sum_j weight_j [(K + shift_j V)^-1]_ii. scratch: n x 8.
 */
typedef struct kernels_ladder_one {
    int64_t n;
    const double *diagonal, *below, *v;
    double shift[KERNELS_LADDER_LANES], weight[KERNELS_LADDER_LANES];
    double *scratch, *out;
} kernels_ladder_one;

/* A of two sub-diagonals, named as in optimum/phi.h; p_t = 1/g_t. cross_t >= 0 if rates do not rise: nothing is subtracted. */
typedef struct kernels_ladder_two {
    int64_t n;
    const double *keep, *momentum, *fresh, *offset, *cross;
    const double *p, *v;
    double shift[KERNELS_LADDER_LANES], weight[KERNELS_LADDER_LANES];
    double *scratch, *out;
} kernels_ladder_two;

enum { KERNELS_LADDER_BLOCK = 128 }; /* 40 KB of information at a time */

static inline int64_t kernels_ladder_two_scratch(int64_t n) {
    int64_t blocks = (n + KERNELS_LADDER_BLOCK - 1) / KERNELS_LADDER_BLOCK;
    return (blocks + KERNELS_LADDER_BLOCK) * 5 * KERNELS_LADDER_LANES;
}

typedef struct kernels_ladder_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    void (*ladder_one)(const kernels_ladder_one *job);
    void (*ladder_two)(const kernels_ladder_two *job);
} kernels_ladder_set;

const kernels_ladder_set *kernels_ladder_get(void);
const kernels_ladder_set *kernels_ladder_find(const char *name);

#endif
