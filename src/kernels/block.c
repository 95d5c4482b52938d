/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reflections and products of small blocks. Blocks of 6 to 60 rows are too small for BLAS calls to pay, and its results
 * may depend on its threads; here each number is summed in one fixed order, eight columns side by side, so that wider
 * registers change the speed and nothing else.
 */
#include "kernels/block.h"

#include "kernels/ladder.h"

#include <string.h>

typedef double lanes __attribute__((vector_size(64), aligned(8), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE void reflect_columns(int64_t rows, int width, double lead, const double *x, double tau, double *pivot, double *m,
                            int64_t stride) {
    lanes sum[4];
    for (int q = 0; q < width; q++)
        sum[q] = lead * ((const lanes *)pivot)[q];
    for (int64_t r = 0; r < rows; r++)
        for (int q = 0; q < width; q++)
            sum[q] += x[r] * ((const lanes *)(m + r * stride))[q];
    for (int q = 0; q < width; q++) {
        sum[q] *= tau;
        ((lanes *)pivot)[q] -= lead * sum[q];
    }
    for (int64_t r = 0; r < rows; r++)
        for (int q = 0; q < width; q++)
            ((lanes *)(m + r * stride))[q] -= x[r] * sum[q];
}

INLINE void reflect(int64_t rows, int64_t columns, double lead, const double *x, double tau, double *pivot, double *m,
                    int64_t stride) {
    int64_t c = 0;
    for (; c + 32 <= columns; c += 32)
        reflect_columns(rows, 4, lead, x, tau, pivot + c, m + c, stride);
    for (; c < columns; c += 8)
        reflect_columns(rows, 1, lead, x, tau, pivot + c, m + c, stride);
}

INLINE void multiply_rows(int height, int width, int64_t inner, const double *a, int64_t a_stride, const double *b,
                          int64_t b_stride, double *c, int64_t c_stride) {
    lanes sum[4][2];
    memset(sum, 0, sizeof sum);
    for (int64_t i = 0; i < inner; i++) {
        const lanes *row = (const lanes *)(b + i * b_stride);
        for (int r = 0; r < height; r++)
            for (int q = 0; q < width; q++)
                sum[r][q] += a[r * a_stride + i] * row[q];
    }
    for (int r = 0; r < height; r++)
        for (int q = 0; q < width; q++)
            ((lanes *)(c + r * c_stride))[q] = sum[r][q];
}

INLINE void multiply(int64_t rows, int64_t inner, int64_t columns, const double *a, int64_t a_stride, const double *b,
                     int64_t b_stride, double *c, int64_t c_stride) {
    for (int64_t at = 0; at < columns; at += columns - at >= 16 ? 16 : 8) {
        int wide = columns - at >= 16;
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4) {
            if (wide)
                multiply_rows(4, 2, inner, a + r * a_stride, a_stride, b + at, b_stride, c + r * c_stride + at,
                              c_stride);
            else
                multiply_rows(4, 1, inner, a + r * a_stride, a_stride, b + at, b_stride, c + r * c_stride + at,
                              c_stride);
        }
        for (; r < rows; r++) {
            if (wide)
                multiply_rows(1, 2, inner, a + r * a_stride, a_stride, b + at, b_stride, c + r * c_stride + at,
                              c_stride);
            else
                multiply_rows(1, 1, inner, a + r * a_stride, a_stride, b + at, b_stride, c + r * c_stride + at,
                              c_stride);
        }
    }
}

#define KERNELS(name, target)                                                                                          \
    target static void reflect_##name(int64_t rows, int64_t columns, double lead, const double *x, double tau,         \
                                      double *pivot, double *m, int64_t stride) {                                      \
        reflect(rows, columns, lead, x, tau, pivot, m, stride);                                                        \
    }                                                                                                                  \
    target static void multiply_##name(int64_t rows, int64_t inner, int64_t columns, const double *a,                  \
                                       int64_t a_stride, const double *b, int64_t b_stride, double *c,                 \
                                       int64_t c_stride) {                                                             \
        multiply(rows, inner, columns, a, a_stride, b, b_stride, c, c_stride);                                         \
    }                                                                                                                  \
    static const dpmf_i_kernels_block_set KERNELS_##name = {reflect_##name, multiply_##name};

KERNELS(ref, )
#if defined(__x86_64__)
KERNELS(avx2, __attribute__((target("avx2"))))
KERNELS(avx512, __attribute__((target("avx512f,avx512vl,avx512dq"))))
#endif

const dpmf_i_kernels_block_set *dpmf_i_kernels_block_find(const char *name) {
    if (dpmf_i_kernels_ladder_find(name) == NULL) return NULL;
#if defined(__x86_64__)
    if (strcmp(name, "avx512") == 0) return &KERNELS_avx512;
    if (strcmp(name, "avx2") == 0) return &KERNELS_avx2;
#endif
    return &KERNELS_ref;
}

const dpmf_i_kernels_block_set *dpmf_i_kernels_block_get(void) {
    return dpmf_i_kernels_block_find(dpmf_i_kernels_ladder_get()->name);
}
