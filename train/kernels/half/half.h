/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of half precision (IEEE 754 binary16) from and to float, by integers: the same on every machine. */
#ifndef TRAIN_KERNELS_HALF_H
#define TRAIN_KERNELS_HALF_H

#include <stdint.h>

typedef struct kernels_half_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    /* The nearest half, ties to even; beyond the largest: infinite. NaN is 0x7e00. */
    void (*narrow)(int64_t count, const float *in, uint16_t *out);
    /* factor x the number */
    void (*widen)(int64_t count, const uint16_t *in, float factor, float *out);
} kernels_half_set;

const kernels_half_set *kernels_half_get(void);
const kernels_half_set *kernels_half_find(const char *name);

#endif
