/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of float matrices, compiled once per set. Every entry is one sum in one order, without fused operations: training
 * gives the same bits for any number of threads, on any machine. A BLAS does not promise that.
 */
#ifndef TRAIN_KERNELS_MULTIPLY_H
#define TRAIN_KERNELS_MULTIPLY_H

#include <stdint.h>

/*
 * c[i,j] <- ((c[i,j] + a[0,i] b[0,j]) + a[1,i] b[1,j]) + ..., i < rows, j < columns, over `terms` terms: row p of a
 * begins at a + p * a_stride, row p of b at b[p] + b_first, row i of c at c + i * c_stride.
 */
typedef struct kernels_product {
    int64_t rows, columns, terms;
    const float *a;
    int64_t a_stride;
    const float *const *b;
    int64_t b_first;
    float *c;
    int64_t c_stride;
} kernels_product;

typedef struct kernels_multiply_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    void (*multiply)(const kernels_product *job);
} kernels_multiply_set;

const kernels_multiply_set *kernels_multiply_get(void);
const kernels_multiply_set *kernels_multiply_find(const char *name);

#endif
