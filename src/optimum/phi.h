/* SPDX-License-Identifier: Apache-2.0 */
/* phi(v; p) = diag of (V^1/2 A' P A V^1/2)^1/2: one object per workload, evaluated many times. */
#ifndef DPMF_OPTIMUM_PHI_H
#define DPMF_OPTIMUM_PHI_H

#include "base/status.h"
#include "base/threads.h"

typedef struct optimum_phi optimum_phi;

DPMF_MUST_CHECK dpmf_status optimum_phi_create(const dpmf_workload *workload, base_pool *pool, optimum_phi **out);
void optimum_phi_free(optimum_phi *phi);

/* Evaluations then report `done` to `run` (NULL: none) several times per second; returns what is reported: never less. */
double optimum_phi_watch(optimum_phi *phi, const dpmf_run *run, double done);

/* An interval that encloses the spectrum of (W'W)^-1 for W = diag(p)^1/2 A diag(v)^1/2; named workloads. */
DPMF_MUST_CHECK dpmf_status optimum_phi_interval(optimum_phi *phi, const double *v, const double *p, double *low,
                                                 double *high);

/*
 * columns_i = [(W'W)^1/2]_ii and, if rows is not NULL, rows_i = [(W W')^1/2]_ii for W = diag(p)^1/2 A diag(v)^1/2;
 * p NULL means all ones. Every entry is right within a relative *error, quadrature and rounding together, and the
 * absolute optimum_phi_floor besides; their sum within the relative error alone. `tolerance` asks for the error, and
 * nodes > 0 fixes the number of quadrature nodes instead.
 */
DPMF_MUST_CHECK dpmf_status optimum_phi_eval(optimum_phi *phi, const double *v, const double *p, double tolerance,
                                             int nodes, double *columns, double *rows, double *error);

/* out_i = v_i sum_j weight_j [(K + shift_j V)^-1]_ii, K = A^-1 P^-1 A^-T, for any few shifts >= 0; named workloads. */
struct base_quadrature;
DPMF_MUST_CHECK dpmf_status optimum_phi_resolvents(optimum_phi *phi, const double *v, const double *p,
                                                   const struct base_quadrature *rule, double *out);

/* 0 for named workloads, the rounding of the last evaluation's singular vectors for a matrix. */
double optimum_phi_floor(const optimum_phi *phi);

/*
 * ---- chains ----
 *
 * A' of a named workload as a chain from the last step to the first: x = A'y by
 *
 *     l_t = keep_t l_{t+1} + y_t
 *     m_t = momentum_t x_{t+1} + cross_t l_{t+1} + fresh_t y_t
 *     x_t = m_t + offset_t l_t
 *
 * with cross_t = fresh_t keep_t - momentum_t offset_{t+1}; the state past the end is 0. Every coefficient is
 * non-negative except cross_t and, in the reversed chain, fresh_t; where learning rates do not rise, these are too.
 */
typedef struct optimum_chain {
    int64_t n;
    double *keep, *momentum, *fresh, *offset, *cross;
    int positive; /* is every coefficient >= 0? */
} optimum_chain;

/*
 * The chain of A' (reversed = 0) or of (J A' J)', J the reversal of the steps. Named workloads. DPMF_ERROR_UNSUPPORTED for a
 * reversed one with Nesterov momentum whose state becomes 0 at some step (decay x rate = 1).
 */
DPMF_MUST_CHECK dpmf_status optimum_chain_create(const dpmf_workload *workload, int reversed, optimum_chain *out);
void optimum_chain_free(optimum_chain *chain);

#endif
