/* SPDX-License-Identifier: Apache-2.0 */
/* The certified optimum under single participation, for evaluate, optimize and TV-BLT. */
#ifndef DPMF_OPTIMUM_H
#define DPMF_OPTIMUM_H

#include "base/status.h"
#include "optimum/epochs/epochs.h"
#include "optimum/patterns/patterns.h"
#include "optimum/phi.h"
#include "workload/workload.h"

/*
 * RMS: `v` is the (near) fixed point of phi, `p` the weights of the steps or NULL. Max: v and p are the column and row
 * weights of the dual, each summing to 1. lower and upper bound the optimal loss (RMS or max loss, at sensitivity 1);
 * `upper` is the loss of X(v) over the largest entry of its diagonal, which has no column norm above 1.
 */
typedef struct optimum_answer {
    int64_t steps;
    double *v, *p;
    double lower, upper;
    int iterations;
    int converged; /* upper/lower - 1 <= tolerance */
} optimum_answer;

/*
 * Named workloads of any size; matrices up to 4096 steps. weights: NULL or positive, RMS only. tolerance on
 * upper/lower - 1, 1e-10 at least. Frees nothing on failure; the caller frees `out` with optimum_free.
 */
DPMF_MUST_CHECK dpmf_status optimum_solve(const dpmf_workload *workload, int max_loss, const double *weights,
                                          double tolerance, const dpmf_run *run, optimum_answer *out);
/* The lower bound alone, in a third of the time: within 1e-6 (RMS), 1e-5 (max) for prefix sums; others were seen 1e-3 short. */
DPMF_MUST_CHECK dpmf_status optimum_single_bound(const dpmf_workload *workload, int max_loss, const double *weights,
                                                 const dpmf_run *run, double *lower);
/* The optimal C as a matrix, columns of norm 1, loss at most optimum->upper but for rounding; up to 8192 steps, in 2 n^2. */
DPMF_MUST_CHECK dpmf_status optimum_explicit(const dpmf_workload *workload, const optimum_answer *optimum,
                                             const dpmf_run *run, dpmf_strategy **out);

void optimum_free(optimum_answer *optimum);

/* ---- lower bounds (optimum/bound.c) ---- */

/* Weights of the steps: finite, not negative, not all zero. */
DPMF_MUST_CHECK dpmf_status optimum_check_weights(int64_t steps, const double *weights);

/* The constant equal to `text` among the scopes of lower bounds, or NULL. */
const char *optimum_lower_bound_scope(const char *text);

/* Both losses. NULL participation: single; NULL options: defaults. Only adjacency, lower_bound, weights and run are read. */
DPMF_MUST_CHECK dpmf_status optimum_find_bound(const dpmf_workload *workload, const dpmf_participation *participation,
                                               const dpmf_evaluate_options *options, dpmf_lower_bound *out);

/*
 * optimum_find_bound for the losses that are needed. Over several epochs the max loss takes most of the time: without it its
 * bound follows from the RMS loss and may be weaker. `known`: what an earlier call found for the RMS loss alone, or NULL.
 */
DPMF_MUST_CHECK dpmf_status optimum_lower_bound(const dpmf_workload *workload, const dpmf_participation *participation,
                                                const dpmf_evaluate_options *options, epochs_losses losses,
                                                const dpmf_lower_bound *known, dpmf_lower_bound *out);

/*
 * The bound of the kind that `scope` names, at any size, to confirm a file's claim even if stronger bounds have become
 * known. *tolerance: the relative difference that two ascents of the same dual may end with; 0 for other bounds.
 */
DPMF_MUST_CHECK dpmf_status optimum_lower_bound_like(const dpmf_workload *workload,
                                                     const dpmf_participation *participation,
                                                     const dpmf_evaluate_options *options, const char *scope,
                                                     dpmf_lower_bound *out, double *tolerance);

/* 1 if a bound has no more digits than bounds of its scope keep; otherwise no run has printed it. */
int optimum_lower_bound_is_cut(double bound, const char *scope);

/* 1 if a file's bound over several epochs may come from an earlier, weaker ascent: it stays proven. */
int optimum_lower_bound_is_weaker(double claimed, const char *claimed_scope, double found, const char *found_scope);

/* optimum/bound.c. A proven lower bound on the nuclear norm of diag(sqrt(weights)) A, or 0; `weights` and `run` may be NULL. */
DPMF_MUST_CHECK dpmf_status optimum_nuclear_norm(const dpmf_workload *a, const double *weights, const dpmf_run *run,
                                                 double *out);

enum { OPTIMUM_DENSE_STEPS_MAX = 2048 }; /* 5 seconds of singular values */
int optimum_all_positive(int64_t n, const double *weights);

/* The routes to it, for callers that need one of them. */
DPMF_MUST_CHECK dpmf_status optimum_nuclear_prefix(int64_t steps, const dpmf_run *run, double *out);
DPMF_MUST_CHECK dpmf_status optimum_nuclear_banded(const dpmf_workload *a, const double *weights, double *out);
DPMF_MUST_CHECK dpmf_status optimum_nuclear_dense(const dpmf_workload *a, const double *weights, double *out);
DPMF_MUST_CHECK dpmf_status optimum_nuclear_averaged(const dpmf_workload *a, double *out);

#endif
