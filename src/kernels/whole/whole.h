/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recursions of the exact release (docs/exactness.md): rows are whole numbers, held in doubles; the feedback is
 * rounded to one before it is added, so that row and seed determine each other for any rounding inside. They are
 * compiled once per instruction set from body.inc and use additions and multiplications in a stated order, as in
 * kernels/combine/combine.h, so that no bit depends on the set. R(x) is the whole number nearest to x, |x| < 2^51.
 *
 * Jobs are those of kernels/combine/combine.h, in double; z is a row of exactly rounded seeds.
 */
#ifndef DPMF_KERNELS_WHOLE_H
#define DPMF_KERNELS_WHOLE_H

#include "kernels/combine/combine.h"

typedef struct kernels_whole_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    /* As in kernels/combine/combine.h, but y_{t+r} = z_r + R(((0 + weight y) + ...)): first_r is not used. */
    void (*feedback)(const kernels_feedback *job);
    /* m = z - R(factor (alpha_0 s_0 + ...)), s_j <- (s_j - gap_j s_j) + m inverse; weights: alphas, gaps, factor, 1/factor */
    void (*blt)(const kernels_recursion_job *job);
    /*
     * X = factor (x_0 + x_1 + ...), m = z + R(X), w = (m - X) inverse with inverse = 1/(factor diagonal),
     * x_j <- x_j + (less_j x_j + gain_j w); weights as of combine's tvblt; and the same of order 2.
     */
    void (*tvblt)(const kernels_recursion_job *job);
    void (*tvblt_second)(const kernels_recursion_job *job);
    /*
     * `row` holds v, the mix of earlier seeds, and `seed` z: m = z + R(factor (v + h_0 x_0 + ...)), u = v + z inverse,
     * x_j <- x_j + (less_j x_j + gain_j u); weights: h, less, gains, factor, inverse.
     */
    void (*replay)(const kernels_recursion_job *job, const double *seed);
    void (*finish)(int64_t count, const double *seed, double *row); /* row <- seed + R(row) */
    void (*add)(int64_t count, const double *x, int64_t *y);        /* y += x, any count, |x| < 2^51 */
} kernels_whole_set;

const kernels_whole_set *kernels_whole_get(void);
const kernels_whole_set *kernels_whole_find(const char *name);

#endif
