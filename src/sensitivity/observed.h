/* SPDX-License-Identifier: Apache-2.0 */
/* The sensitivity of a run that happened: what its parts share. X = C'C as in sensitivity/sensitivity.h. */
#ifndef DPMF_SENSITIVITY_OBSERVED_H
#define DPMF_SENSITIVITY_OBSERVED_H

#include "base/sum.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"

/* ---- the log as patterns (sensitivity/observed.c) ---- */

/* The different patterns of a log: pattern i is steps[begins[i]] < ... < steps[begins[i + 1] - 1]. */
typedef struct sensitivity_log {
    int64_t count, longest;
    int64_t *begins; /* count + 1 */
    int64_t *steps;
    int64_t *units; /* the smallest unit that has the pattern */
} sensitivity_log;

/* DPMF_ERROR_ARGUMENT for an empty log, a step outside 0..n-1, a unit twice in a step. */
DPMF_MUST_CHECK dpmf_status sensitivity_log_open(int64_t n, int64_t participations, const int64_t *unit,
                                                 const int64_t *step, const dpmf_run *run, sensitivity_log *log);
void sensitivity_log_close(sensitivity_log *log); /* a zeroed one is fine */

static inline int64_t sensitivity_log_size(const sensitivity_log *log, int64_t pattern) {
    return log->begins[pattern + 1] - log->begins[pattern];
}

/* ---- X above its diagonal in lines (sensitivity/observed_lines.c) ---- */

enum { SENSITIVITY_MAJORANT_BLOCKS = 16 }; /* of steps: each has its own largest |X| for every lag */

/* Diagonals of X, or its rows where those are cheaper (TV-BLT); a line is made when some pattern needs it. */
typedef struct sensitivity_lines {
    const sensitivity_task *task;
    const sensitivity_log *log;
    const dpmf_strategy *by_rows; /* the core, where it gives rows of X; NULL: diagonals */
    double *vectors;              /* of the rows */
    int64_t *offset;              /* of a line in `values`: -1 not wanted, -2 wanted but not held */
    double *values;
    double *diagonal; /* X[t,t] */
    double *majorant; /* [block of t][lag]: at least |X[t, t+lag]| */
} sensitivity_lines;

/* Opens; `affordable` = 0: the lines are too many for task->work_max, and nothing but the closing is allowed. */
DPMF_MUST_CHECK dpmf_status sensitivity_lines_open(const sensitivity_task *task, const sensitivity_log *log,
                                                   sensitivity_lines *lines, int *affordable);
void sensitivity_lines_close(sensitivity_lines *lines);

DPMF_MUST_CHECK dpmf_status sensitivity_lines_majorant(sensitivity_lines *lines);

/* Sums of X over a pattern, the diagonal included. */
typedef struct sensitivity_pattern_sums {
    base_running absolute, plain;
    int negative;
} sensitivity_pattern_sums;
DPMF_MUST_CHECK dpmf_status sensitivity_lines_sums(sensitivity_lines *lines, int64_t count, const int64_t *which,
                                                   sensitivity_pattern_sums *sums);

/* The matrices of patterns, `stride` numbers apart. */
DPMF_MUST_CHECK dpmf_status sensitivity_lines_matrices(sensitivity_lines *lines, int64_t count, const int64_t *which,
                                                       int64_t stride, double *matrices);

#endif
