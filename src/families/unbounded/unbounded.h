/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams without a horizon: C = G T F, with G and F diagonal and T a BLT (families/blt/blt.h) whose buffers start one after
 * the other. Time is cut into blocks, the last of which never ends; on a block g, f and the set of buffers do not change.
 *
 *     T[u,u] = 1,   T[t,u] = sum_i scale_i prod_{u<r<t} lambda_i(r),   lambda_i(r) = 1 - gap_i if buffer i has started by
 *                                                                      step r, and 1 before
 *
 * Buffers that have not started are all alike: one lump stands for them, of scale sum of theirs and gap 0. So that the
 * stream keeps `active` + 1 buffers, and when one starts it continues from the lump's value. Nothing here depends on how
 * many steps there will be. docs/unbounded.md has the proof that no column of C is longer than 1.
 */
#ifndef DPMF_FAMILIES_UNBOUNDED_H
#define DPMF_FAMILIES_UNBOUNDED_H

#include "error/error.h"
#include "strategy/strategy.h"

enum {
    UNBOUNDED_NODES_MAX = 32,
    UNBOUNDED_BUFFERS_MAX = 16, /* within the steps that a stream may have */
    UNBOUNDED_BLOCKS_MAX = 4096
};

typedef struct unbounded_shape {
    int64_t nodes;  /* of T */
    int64_t blocks; /* at least 1 */
    double *gap;    /* nodes; they fall */
    double *scale;  /* nodes */
    double *start;  /* blocks: the first step, a whole number; they rise from 0 and may be beyond any step count */
    double *active; /* blocks: buffers that have started, 1 to nodes; all of them in the last block */
    double *gain;   /* blocks: g, which does not rise */
    double *norm;   /* blocks: 1/f */
} unbounded_shape;

/* What a step of one block is made of: `count` buffers, the last of them the lump. */
typedef struct unbounded_step {
    int count;
    double scale[UNBOUNDED_BUFFERS_MAX], gap[UNBOUNDED_BUFFERS_MAX];
    double gain, norm;
} unbounded_step;

/* The built-in one. On failure nothing is left; freeing a zeroed struct is fine. */
DPMF_MUST_CHECK dpmf_status unbounded_shape_create(unbounded_shape *out);
DPMF_MUST_CHECK dpmf_status unbounded_shape_alloc(int64_t nodes, int64_t blocks, unbounded_shape *out);
void unbounded_shape_free(unbounded_shape *shape);

/* Is everything as the comments above say? If not: DPMF_ERROR_FORMAT. */
DPMF_MUST_CHECK dpmf_status unbounded_shape_check(const unbounded_shape *shape);

/* The longest column of G T with unit f that starts in each block: sqrt S, which is its first one's. */
void unbounded_shape_norms(const unbounded_shape *shape, double *norms);

int64_t unbounded_block(const unbounded_shape *shape, int64_t t);

unbounded_step unbounded_step_of(const unbounded_shape *shape, int64_t block);

/* No column of C is longer than this, however long the stream. */
double unbounded_longest(const unbounded_shape *shape);

DPMF_MUST_CHECK dpmf_status unbounded_create(int64_t steps, dpmf_strategy **out);

typedef struct unbounded_strategy {
    dpmf_strategy base;
    unbounded_shape c;
} unbounded_strategy;

/* The shape of a strategy of this family. */
static inline const unbounded_shape *unbounded_of(const dpmf_strategy *s) {
    return &((const unbounded_strategy *)s)->c;
}

DPMF_MUST_CHECK dpmf_status unbounded_read(const strategy_source *source, dpmf_strategy **out);

/* Named workloads, O(n d^2). */
DPMF_MUST_CHECK dpmf_status unbounded_squared_errors(const dpmf_strategy *s, const error_question *q, int *done,
                                                     double *squares);
/* Prefix sums: any stretch of steps, and the sum and the largest of all, in O(log n) products of matrices for each block. */
int unbounded_error_range(const dpmf_strategy *s, const dpmf_workload *a, int64_t first, int64_t count,
                          double *squares);
int unbounded_error_sums(const dpmf_strategy *s, const dpmf_workload *a, double *total, double *largest);

#endif
