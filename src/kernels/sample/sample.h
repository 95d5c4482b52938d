/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops of simulated losses (account/montecarlo/), compiled once per set: number j of sample i at j * LANES + i. Sums have one
 * order and no fused operations, so that an account does not depend on the set.
 */
#ifndef DPMF_KERNELS_SAMPLE_H
#define DPMF_KERNELS_SAMPLE_H

#include <stdint.h>

enum { KERNELS_SAMPLE_LANES = 32 };

typedef struct kernels_sample_set {
    const char *name; /* as in kernels/ladder/ladder.h */

    /* The numbers of base_random_normals. */
    void (*normals)(uint64_t seed, uint64_t stream, int64_t count, double *out);

    /* out[j] = scale (root[j, first[j]] z[first[j]] + ... + root[j, j] z[j]), j < size. */
    void (*triangle)(int64_t size, const int64_t *first, const double *root, double scale, const double *z,
                     double *out);

    /* e^x for |x| <= 200, to 1e-15. */
    void (*exponentials)(int64_t count, const double *x, double *out);

    /* sum = factors[0] e[0] + factors[1] e[1] + ... + factors[count - 1] e[count - 1]. */
    void (*add_up)(int64_t count, const double *factors, const double *e, double sum[KERNELS_SAMPLE_LANES]);

    /* out = e^x, x = scale (column[0] y[0] + ...) - constant, and wild = max(wild, |x|): above 200, out has no meaning. */
    void (*factors)(int64_t rows, const double *column, const double *y, double scale, double constant,
                    double out[KERNELS_SAMPLE_LANES], double wild[KERNELS_SAMPLE_LANES]);
} kernels_sample_set;

const kernels_sample_set *kernels_sample_get(void);
const kernels_sample_set *kernels_sample_find(const char *name);

#endif
