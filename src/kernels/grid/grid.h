/* SPDX-License-Identifier: Apache-2.0 */
/* Contributions on a grid: squares in double, multiples added in integers. Sums by 16 in one order, unfused, in every set. */
#ifndef DPMF_KERNELS_GRID_H
#define DPMF_KERNELS_GRID_H

#include <stdint.h>

typedef struct kernels_grid_set {
    const char *name; /* as in kernels/ladder/ladder.h */

    /* The sum of the squares of `count` numbers, in double. */
    double (*squares_float)(int64_t count, const float *g);
    double (*squares_double)(int64_t count, const double *g);

    /* sum[j] += sign q_j, q_j the integer nearest to the double scale g[j], below 2^51; gives the sum of q_j^2, in double. */
    double (*add_float)(int64_t count, const float *g, double scale, int64_t sign, int64_t *sum);
    double (*add_double)(int64_t count, const double *g, double scale, int64_t sign, int64_t *sum);
} kernels_grid_set;

const kernels_grid_set *kernels_grid_get(void);
const kernels_grid_set *kernels_grid_find(const char *name);

#endif
