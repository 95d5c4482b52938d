/* SPDX-License-Identifier: Apache-2.0 */
/* The routes to the row norms of B = A C^-1; error/error.c chooses among them. Each fills per_step with |B[t,:]|^2. */
#ifndef DPMF_ERROR_H
#define DPMF_ERROR_H

#include "base/status.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

/*
 * One step of a named workload on second moments: with y_t the noise of step t,
 *
 *     m_t = beta m_{t-1} + y_t,   o_t = keep o_{t-1} + p m_{t-1} + g y_t,   p = rate from_m beta,  g = rate (from_m + from_y)
 *
 * and |B[t,:]|^2 = Var o_t when the seeds are white with unit variance.
 */
typedef struct error_moments {
    double mm, mo, oo; /* variances and covariance of m and o */
} error_moments;

typedef struct error_drive {
    double beta, keep, p, g;
} error_drive;

error_drive error_drive_at(const dpmf_workload *a, int64_t t);

/* yy = Var y_t; ym and yo are its covariances with m and o before the step. */
void error_moments_advance(const error_drive *d, double yy, double ym, double yo, error_moments *v);

/*
 * What a family is asked for (squared_errors of strategy/strategy.h): the errors under workload `a` of the strategy repeated
 * `stamps` times, each time restarted, with the noise of step t multiplied by scale[t] where `scale` is not NULL.
 */
typedef struct error_question {
    const dpmf_workload *a;
    int64_t stamps;
    const double *scale;
    const dpmf_run *run;
} error_question;

/* The strategy as it is, not repeated and not scaled? */
int error_question_is_plain(const error_question *q);

/* The sum and the largest of the squares, where the family has them without an array of all: 1; else 0. */
int error_sums(const dpmf_workload *a, const dpmf_strategy *s, double *total, double *largest);

/* Progress of step t of n, where a step takes this number of operations: asked some dozen times per second at most. */
DPMF_MUST_CHECK dpmf_status error_report(const dpmf_run *run, int64_t t, int64_t n, int64_t operations);

/* error/error.c: covariance recursions for named workloads, O(n b) for C^-1 and O(n b^2) for C of b bands. */
DPMF_MUST_CHECK dpmf_status error_fed_back(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                           double *per_step);

/* error/toeplitz.c: named A, C Toeplitz of `count` bands c, columns over `scale` or NULL: O(n^2), O(n count) for Toeplitz A. */
DPMF_MUST_CHECK dpmf_status error_toeplitz_columns(const dpmf_workload *a, int64_t count, const double *c,
                                                   const double *scale, const dpmf_run *run, double *per_step);

/*
 * error/toeplitz.c: the same for workloads with a schedule and without decay; columns divided only where there is no momentum:
 * O(n log n + l^2), l some dozens of bands, or O(n log^2 n). *done = 0, and nothing else, where that is no gain.
 */
DPMF_MUST_CHECK dpmf_status error_schedule(const dpmf_workload *a, int64_t count, const double *c, const double *scale,
                                           const dpmf_run *run, int *done, double *per_step);

/* error/toeplitz.c: q_t = sum over s < t of rates_s (H H')[t,s], H Toeplitz with first column g; O(n log^2 n). */
DPMF_MUST_CHECK dpmf_status error_triangle(int64_t n, const double *g, const double *rates, const dpmf_run *run,
                                           double *q);

/*
 * error/error.c: |B[t,:]| for a stream that is running, whose workload and strategy must live as long. Steps in order are
 * cheap; memory does not grow with the steps for prefix sums without a horizon. Not for two threads at once.
 */
typedef struct error_lookup error_lookup;
DPMF_MUST_CHECK dpmf_status error_lookup_create(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                                error_lookup **out);
double error_lookup_at(error_lookup *lookup, int64_t t);
void error_lookup_free(error_lookup *lookup);

/* error/error.c: impulse responses of square strategies, O(n^2) time, O(n) memory; and whole matrices with BLAS, where
 * `matrix` is C itself, if it is held. */
DPMF_MUST_CHECK dpmf_status error_dense(const dpmf_workload *a, const dpmf_strategy *s, const double *matrix,
                                        const dpmf_run *run, double *per_step);

#endif
