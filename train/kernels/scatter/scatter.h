/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattering of several images side by side, one per lane of a register, compiled once per set. An image's numbers do not
 * depend on its neighbours or on the number of lanes, and no operation is fused: every set gives the same bits.
 */
#ifndef TRAIN_KERNELS_SCATTER_H
#define TRAIN_KERNELS_SCATTER_H

#include <stdint.h>

enum { KERNELS_SCATTER_LANES = 16, KERNELS_SCATTER_PASSES = 24 }; /* the most lanes of any set; radices of a length */

/* One axis of the padded image: its transform, and the low pass along it. */
typedef struct kernels_scatter_axis {
    int64_t length; /* the product of the radices: 8, 4, 2, or an odd number */
    int64_t passes, radix[KERNELS_SCATTER_PASSES];
    const float *turn[KERNELS_SCATTER_PASSES]; /* of each pass: cosine and sine of 2 pi j k/n, k < n/radix, j < radix */
    const float *prime[KERNELS_SCATTER_PASSES]; /* of an odd radix p: cosine and sine of 2 pi j m/p, j, m < p */
    int64_t outputs, first, step;               /* the low pass is taken at first + step i, i < outputs */
    int64_t reach;                              /* taps on each side, less than length */
    const float *tap;                           /* reach + 1 numbers: the middle one, then those of both sides */
} kernels_scatter_axis;

typedef struct kernels_scatter_plan {
    kernels_scatter_axis rows, columns;
    int64_t scales, angles;
    const float *filter; /* scales x angles x rows x columns numbers: the filters in frequency over rows x columns */
} kernels_scatter_plan;

/* Numbers of the scratch, 64-byte aligned, per lane: see kernels_scatter_room. */
typedef struct kernels_scatter_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    int64_t lanes;
    /*
     * `image`: rows x columns x lanes numbers, those of the lanes side by side. `out`: paths x outputs of the rows x outputs
     * of the columns x lanes. Paths: the image; then for each filter (scale, angle) its modulus and, after it, the moduli of
     * that by the filters of coarser scales.
     */
    void (*scatter)(const kernels_scatter_plan *plan, const float *image, float *scratch, float *out);
    /* Groups of `size` numbers, the last one shorter, to mean 0 and variance 1: (v - mean)/sqrt(variance + `added`). */
    void (*normalise)(int64_t count, int64_t size, float added, float *numbers);
} kernels_scatter_set;

int64_t kernels_scatter_room(const kernels_scatter_plan *plan); /* per lane */
int64_t kernels_scatter_paths(const kernels_scatter_plan *plan);

const kernels_scatter_set *kernels_scatter_get(void);
const kernels_scatter_set *kernels_scatter_find(const char *name);

#endif
