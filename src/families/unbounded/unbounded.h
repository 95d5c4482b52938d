/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams without a horizon: C = G T F, with G and F diagonal and T a BLT (families/blt/blt.h) whose buffers start one after
 * the other. Time is cut into blocks, the last of which never ends; on a block g, f and the set of buffers do not change.
 *
 *     T[u,u] = 1,   T[t,u] = sum_i scale_i prod_{u<r<t} lambda_i(r),   lambda_i(r) = 1 - gap_i if buffer i has started by
 *                                                                      step r, and 1 before
 *
 * Buffers that have not started are all alike: one lump stands for them, of scale sum of theirs and gap 0. So that the
 * stream keeps `active` + 1 buffers, and when one starts it goes on from the lump's value. Nothing here depends on how
 * many steps there will be. docs/unbounded.md has the proof that no column of C is longer than 1.
 */
#ifndef DPMF_STRATEGY_UNBOUNDED_H
#define DPMF_STRATEGY_UNBOUNDED_H

#include "base/status.h"

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

/* ---- families/unbounded/shape.c ---- */

/* The built-in one. On failure nothing is left; freeing a zeroed struct is fine. */
DPMF_MUST_CHECK dpmf_status unbounded_shape_create(unbounded_shape *out);
DPMF_MUST_CHECK dpmf_status unbounded_shape_alloc(int64_t nodes, int64_t blocks, unbounded_shape *out);
void unbounded_shape_free(unbounded_shape *shape);

/* Is everything as the comments above say? If not: DPMF_ERROR_FORMAT. */
DPMF_MUST_CHECK dpmf_status unbounded_shape_check(const unbounded_shape *shape);

/* The longest column of G T with unit f that starts in each block: sqrt S, which is its first one's. */
void unbounded_shape_norms(const unbounded_shape *shape, double *norms);

/* The block that holds step t. */
int64_t unbounded_block(const unbounded_shape *shape, int64_t t);

unbounded_step unbounded_step_of(const unbounded_shape *shape, int64_t block);

/* ---- families/unbounded/object.c ---- */

/* No column of C is longer than this, however long the stream. */
double unbounded_longest(const unbounded_shape *shape);

DPMF_MUST_CHECK dpmf_status unbounded_create(int64_t steps, dpmf_strategy **out);

/* The first `steps` steps alone, which are the same; of another strategy: it whole, retained. */
DPMF_MUST_CHECK dpmf_status unbounded_head(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out);

/* NULL if it is another strategy. */
const unbounded_shape *unbounded_of(const dpmf_strategy *s);

struct strategy_source;
DPMF_MUST_CHECK dpmf_status unbounded_read(const struct strategy_source *source, dpmf_strategy **out);

/* ---- families/unbounded/error.c ---- */

/* Row norms squared of B = A C^-1, as for the others (families/tvblt/tvblt.h), O(n d^2). */
DPMF_MUST_CHECK dpmf_status unbounded_errors(const dpmf_workload *a, const unbounded_shape *shape, int64_t steps,
                                             int64_t stamps, const double *scale, const dpmf_run *run,
                                             double *per_step);

/* Prefix sums, steps first to first + count - 1 alone; what is before them takes O(log first) products of d x d. */
void unbounded_errors_range(const unbounded_shape *shape, int64_t first, int64_t count, double *per_step);

/*
 * Prefix sums: the sum of these squares over all steps, and the largest, looked for at 24 places of each block and then
 * around the largest of them: there may be several tops, so it can be missed by 1e-4 of it. 1; 0 if it is not prefix sums
 * and such a stream.
 */
int unbounded_error_sums(const dpmf_workload *a, const dpmf_strategy *s, double *total, double *largest);

#endif
