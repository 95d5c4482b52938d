/* SPDX-License-Identifier: Apache-2.0 */
/* Exactly rounded normal numbers where double arithmetic cannot decide (kernels/seed/whole.c). */
#ifndef DPMF_KERNELS_SEED_WHOLE_H
#define DPMF_KERNELS_SEED_WHOLE_H

#include <stdint.h>

/* The accepted scales: the rounded numbers are then below 2^51. */
#define KERNELS_SEED_SCALE_MIN 0x1p-10
#define KERNELS_SEED_SCALE_MAX 0x1p45

enum {
    KERNELS_SEED_WHOLE_LEAST = 2,  /* words of the fraction that the arithmetic begins with ... */
    KERNELS_SEED_WHOLE_MOST = 8,   /* ... and ends with */
    KERNELS_SEED_WHOLE_BLOCKS = 16 /* of more bits that a word may have */
};

/* The bits of a pair: words of radius and angle, and by `more` block i < KERNELS_SEED_WHOLE_BLOCKS; it returns 0 on failure. */
typedef struct kernels_seed_bits {
    uint64_t radius, angle;
    int (*more)(const void *context, int of_angle, int i, uint64_t out[2]);
    const void *context;
} kernels_seed_bits;

/* x, y = scale x the normals, rounded exactly but for 2^-400. `words`: 2, 4 or 8, to begin with. Returns 0 if `more` failed. */
int kernels_seed_whole_pair(const kernels_seed_bits *bits, double scale, int words, double *x, double *y);

#endif
