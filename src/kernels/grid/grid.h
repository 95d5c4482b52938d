/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contributions on a grid, compiled once per instruction set from body.inc: squares in double, and rounded multiples
 * added up in integers. Squares are summed by 16 in a fixed order without fused operations, so that nothing depends on
 * the set.
 */
#ifndef DPMF_KERNELS_GRID_H
#define DPMF_KERNELS_GRID_H

#include <stdint.h>

typedef struct kernels_grid_set {
    const char *name; /* as in kernels/ladder/ladder.h */

    /* The sum of the squares of `count` numbers, in double. */
    double (*squares_float)(int64_t count, const float *g);
    double (*squares_double)(int64_t count, const double *g);

    /*
     * sum[j] += sign q_j, q_j = the integer nearest to the double product scale g[j], of a magnitude below 2^51; gives the
     * sum of q_j^2, in double.
     */
    double (*add_float)(int64_t count, const float *g, double scale, int64_t sign, int64_t *sum);
    double (*add_double)(int64_t count, const double *g, double scale, int64_t sign, int64_t *sum);
} kernels_grid_set;

/* The set of the same name as kernels_ladder_get()'s; one by name, or NULL if this machine does not have it. */
const kernels_grid_set *kernels_grid_get(void);
const kernels_grid_set *kernels_grid_find(const char *name);

#endif
