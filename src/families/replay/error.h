/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of a TV-BLT with replayed seeds (families/replay/replay.h), and what their derivatives need of the way there. */
#ifndef DPMF_ERROR_REPLAY_H
#define DPMF_ERROR_REPLAY_H

#include "base/status.h"
#include "base/threads.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

/* State of the workload (o, or o and m) and the buffers, m numbers; o first. */
typedef struct replay_error {
    int heads, states;  /* 1 or 2; heads + r */
    double *drive;      /* by step, x 4: beta, keep, p, g of the workload */
    double *power;      /* (b+1) x r: rho^p */
    double *phi, *psi;  /* k x (b+1) x heads x m: the workload's rows of the transitions, as in the filter */
    double *w;          /* by step, x m: psi_{p+1} times the input */
    double *through;    /* k x k x m x m: [f][e] from the end of epoch e to the start of epoch f > e */
    double *whole;      /* k x m x m: from the start of an epoch to its end */
    double *omega;      /* by step, x m: Cov(state at the start of the epoch, u_t) */
    double *gamma;      /* by step, x m: Cov(state, u_t) */
    double *covariance; /* (k b + 1) x m x m: Cov(state) before step t */
    double *squares;    /* by step: |B[t,:]|^2, B = A W; 0 past n */
} replay_error;

DPMF_MUST_CHECK dpmf_status replay_error_alloc(const dpmf_workload *workload, const replay_shape *shape,
                                               replay_error *out);
void replay_error_free(replay_error *e);
/* From h, beta, rho, d and V of c. */
DPMF_MUST_CHECK dpmf_status replay_error_fill(const replay_coefficients *c, base_pool *pool, replay_error *e);
/* K (row-major, heads x heads) and c of step t: the workload's rows of a step are (K, c h') on the state, c on u. */
typedef struct replay_error_head {
    double k[4], c[2];
} replay_error_head;

static inline replay_error_head replay_error_head_at(const replay_error *e, const replay_coefficients *c, int64_t t) {
    const double *d = e->drive + 4 * t, scale = c->scale[t % c->shape.period];
    if (e->heads == 1) return (replay_error_head){{d[1]}, {scale * d[3]}};
    return (replay_error_head){{d[1], d[2], 0, d[0]}, {scale * d[3], scale}};
}

/*
 * function(heads, buffers, ...) with the usual numbers of both compiled in: the loops over them unroll, a factor of two
 * to three.
 */
#define REPLAY_USUAL(function, heads, buffers, ...)                                                                    \
    do {                                                                                                               \
        if ((buffers) == 4 && (heads) == 1)                                                                            \
            function(1, 4, __VA_ARGS__);                                                                               \
        else if ((buffers) == 4)                                                                                       \
            function(2, 4, __VA_ARGS__);                                                                               \
        else                                                                                                           \
            function(heads, buffers, __VA_ARGS__);                                                                     \
    } while (0)

/* All of it in one call: n squared row norms of B. Named workloads. */
DPMF_MUST_CHECK dpmf_status replay_errors(const dpmf_workload *workload, const replay_coefficients *c, base_pool *pool,
                                          double *per_step);

#endif
