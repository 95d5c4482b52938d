/* SPDX-License-Identifier: Apache-2.0 */
/* The dual of the optimum, maximised with a certificate at every step; optimum/optimum.c runs it at each size. */
#ifndef DPMF_OPTIMUM_ASCENT_H
#define DPMF_OPTIMUM_ASCENT_H

#include "base/status.h"
#include "base/threads.h"
#include "optimum/phi.h"

typedef struct optimum_ascent {
    int64_t n, unknowns; /* n, or 2n for max loss with p apart from v */
    int max_loss, mirrored;
    const double *weights; /* RMS: NULL or p */
    const dpmf_run *run;   /* progress callback, or NULL */
    int coarse;            /* a coarse run for a longer one: progress stays at 0 */
    optimum_phi *phi;
    double *y;               /* the point: square roots of v and, if apart, of p; any scale */
    double *v, *p;           /* of the last evaluation: v sums to 1, for max loss p too */
    double *columns, *rows;  /* phi there */
    double *best_v, *best_p; /* the point of least `upper`; for RMS scaled to the fixed point */
    double *next, *gradient, *next_gradient, *direction;
    double error;        /* of the last evaluation */
    double here;         /* its gap, upper/lower - 1 */
    double spread;       /* the same if phi had no error */
    double lower, upper; /* the best so far */
    int evaluations;
} optimum_ascent;

/* y is 1 to begin with. */
DPMF_MUST_CHECK dpmf_status optimum_ascent_create(const dpmf_workload *workload, int max_loss, const double *weights,
                                                  base_pool *pool, optimum_ascent *out);
void optimum_ascent_free(optimum_ascent *ascent);

/* Ascends from y until upper/lower - 1 <= tolerance or no more is gained. `near`: y is already near the top. */
DPMF_MUST_CHECK dpmf_status optimum_ascent_run(optimum_ascent *ascent, double tolerance, int near);

/* upper/lower - 1. */
double optimum_ascent_gap(const optimum_ascent *ascent);

#endif
