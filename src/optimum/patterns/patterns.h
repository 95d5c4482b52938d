/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimum under min-separation, shuffled participation and patterns from a file, for any mechanism:
 *
 *     minimise tr(A'PA X^-1)   subject to   f(X_p) <= 1 for every pattern p of steps that one unit may take,
 *
 * X = C'C, f(X_p) = max { <X_p,Y> : Y psd, Y_tt = 1 } = min { sum y : Diag(y) - X_p psd }, the squared sensitivity to
 * contributions of as many coordinates as there are participations. The problem is convex. Its dual is
 *
 *     maximise |P^1/2 A L|_*^2 / sum_p nu_p    over   V = L L' = sum_p nu_p Y_p,   nu >= 0, Y_p as above on p:
 *
 * for every V of this form tr(VX) <= sens^2 sum nu, and (Cauchy and Schwarz in the trace norm) tr(A'PA X^-1) tr(VX) >=
 * |P^1/2 A L|_*^2. At V the best X is X(V) = V^-1 # A'PA, with tr(V X) = T = |P^1/2 A L|_*.
 */
#ifndef DPMF_OPTIMUM_PATTERNS_H
#define DPMF_OPTIMUM_PATTERNS_H

#include "base/status.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

enum { PATTERNS_STEPS_MAX = 500 }; /* O(n^3) per step, and hundreds of steps */

/* ---- patterns with a large value (optimum/patterns/find.c) ---- */

/* Patterns of steps, `k` places each, and the bounds of their values in X. */
typedef struct patterns_list {
    int64_t k, count, room;
    int64_t *steps; /* k per pattern */
    int64_t *sizes;
    double *values;
} patterns_list;
DPMF_MUST_CHECK dpmf_status patterns_list_create(int64_t k, int64_t room, patterns_list *out);
void patterns_list_free(patterns_list *list);

/*
 * The patterns with f(X_p) > level: at most list->room, the worst by their values, largest first. `most`: an upper bound on f
 * over all patterns, not below `level`; a looser one, with `whole` 0, if the tree of patterns is too large to be searched.
 */
DPMF_MUST_CHECK dpmf_status patterns_find(const dpmf_participation *participation, const double *x, double level,
                                          patterns_list *list, double *most, int *whole);

/* ---- the optimum (optimum/patterns/solve.c) ---- */

typedef struct patterns_task {
    const dpmf_workload *workload;
    const dpmf_participation *participation; /* min-separation, shuffled, or patterns in which every step is */
    int max_loss;
    const double *weights;
    double tolerance;
    const dpmf_run *run;
} patterns_task;

typedef struct patterns_answer {
    double lower, upper; /* on the total squared loss, or the squared max loss */
    int iterations, converged;
    int64_t patterns; /* in the last dual */
    double *c;        /* n x n, lower triangular, sensitivity at most 1; the caller frees it */
} patterns_answer;

DPMF_MUST_CHECK dpmf_status patterns_solve(const patterns_task *task, patterns_answer *out);

/* ---- lower bounds of patterns from a file (optimum/patterns/bound.c) ---- */

/* A draw of patterns in which every step has at least the probability 1/ *apart; 0: a step is in none. */
DPMF_MUST_CHECK dpmf_status patterns_draw(const dpmf_participation *participation, double *apart);

/* The dual's value, where the steps are at most `most` and all in patterns; 0: unknown. */
DPMF_MUST_CHECK dpmf_status patterns_lower_bound(const dpmf_workload *workload, const dpmf_participation *participation,
                                                 const double *weights, int rms_alone, int64_t most,
                                                 const dpmf_run *run, epochs_lower *out);

#endif
