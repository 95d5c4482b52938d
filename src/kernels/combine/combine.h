/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear combinations of rows and the recursions that make correlated noise: the kernels, compiled once per instruction
 * set from body.inc, for float and double. They use additions and multiplications only, coordinate by coordinate and in
 * one stated order, so that results depend neither on the set nor on how coordinates or rows are grouped.
 *
 * Rows are float or double as the table is. Except in store and add, `count` is a multiple of KERNELS_COMBINE_UNIT.
 */
#ifndef DPMF_KERNELS_COMBINE_H
#define DPMF_KERNELS_COMBINE_H

#include <stdint.h>

enum {
    KERNELS_COMBINE_UNIT = 64, /* coordinates: four registers of the widest set */
    KERNELS_COMBINE_ROWS = 4   /* made at once: each row that is read serves all of them */
};

/*
 * Rows t..t+rows-1 of a stream that feeds its outputs back, lag by lag,
 *
 *     y_{t+r} = ((first_r z_r + weight(r, lags) y_{t+r-lags}) + ...) + weight(r, 1) y_{t+r-1},
 *
 * oldest row first. The ring holds row u in slot u mod lags. Only `past` rows before t exist.
 * factor[p * rows + r]: the weight in row t+r of row t-p, for p = 1..lags, lag p + r <= lags; at p = 0: first_r.
 * near[r * 4 + q]: the weight in row t+r of row t+q, q < r. 1 <= rows <= lags.
 */
typedef struct kernels_feedback {
    int64_t count, lags, past;
    int rows;
    int64_t slot;   /* of row t: t mod lags */
    int64_t stride; /* between slots */
    int64_t fetch;  /* != 0: prefetch the memory this many numbers ahead, which the next call will read */
    const void *factor, *near;
    const void *seed; /* row r at r * count */
    void *ring;
} kernels_feedback;

/*
 * y_r <- ((y_r + factor[from_r * rows + r] x_{from_r}) + ...) + factor[(to_r - 1) * rows + r] x_{to_r - 1}, r < rows;
 * from and to do not fall with r. x_k at k * count, y_r at r * stride.
 */
typedef struct kernels_accumulate {
    int64_t count, stride;
    int rows;
    int64_t from[KERNELS_COMBINE_ROWS], to[KERNELS_COMBINE_ROWS];
    const void *factor, *x;
    void *y;
} kernels_accumulate;

/* State rows at j * stride; `row` holds the seed z and becomes the last weight times the output y. */
typedef struct kernels_recursion_job {
    int64_t count, stride;
    int states;         /* d of a BLT; nodes of a TV-BLT */
    const void *weight; /* as each recursion says */
    void *state, *row;
} kernels_recursion_job;

typedef struct kernels_combine {
    void (*store)(int64_t count, double scale, const void *x, void *y); /* y = scale x, any count */
    void (*add)(int64_t count, double scale, const void *x, void *y);   /* y += scale x, any count */
    /* y = ((0 + factor_0 x_0) + factor_1 x_1) + ...; y is none of the x */
    void (*sum)(int64_t count, int64_t terms, const void *factor, const void *const *x, void *y);
    void (*feedback)(const kernels_feedback *job);
    void (*accumulate)(const kernels_accumulate *job);
    /* y = (z - alpha_0 m_0) - alpha_1 m_1 ..., then m_j <- (m_j - gap_j m_j) + y; weights: alphas, gaps, factor */
    void (*blt)(const kernels_recursion_job *job);
    /* y = (diagonal z + x_0) + x_1 ..., x_j <- x_j + (less_j x_j + gain_j z); weights: diagonal, less, gains, factor */
    void (*tvblt)(const kernels_recursion_job *job);
    /*
     * The same with x_j and, `states` rows further, x'_j: u = keep_j x_j + keep'_j x'_j, x_j <- x_j + (u + gain_j z),
     * x'_j <- u + gain'_j z; weights: diagonal, keep, keep', gain, gain', factor.
     */
    void (*tvblt_second)(const kernels_recursion_job *job);
    /* y = (u + h_0 x_0) + h_1 x_1 ..., x_j <- x_j + (less_j x_j + gain_j u); weights: h, less, gains, factor */
    void (*replay)(const kernels_recursion_job *job);
} kernels_combine;

typedef struct kernels_combine_set {
    const char *name;             /* of the instruction set (kernels/isa.h) */
    kernels_combine single, full; /* float, double */
} kernels_combine_set;

const kernels_combine_set *kernels_combine_get(void);
const kernels_combine_set *kernels_combine_find(const char *name);

#endif
