/* SPDX-License-Identifier: Apache-2.0 */
/* Anderson acceleration of a fixed point x = G(x), safeguarded. */
#ifndef DPMF_OPTIMUM_ANDERSON_H
#define DPMF_OPTIMUM_ANDERSON_H

#include "base/status.h"

enum { DPMF_I_ANDERSON_DEPTH = 6 };

typedef struct dpmf_i_anderson {
    int64_t n;
    int parts;    /* the unknowns are so many functions of the step, one after the other */
    int used;     /* differences held */
    int64_t turn; /* where the next goes */
    double *difference_x[DPMF_I_ANDERSON_DEPTH], *difference_f[DPMF_I_ANDERSON_DEPTH];
    double *last_x, *last_f; /* of the step before */
    int has_last;
} dpmf_i_anderson;

DPMF_MUST_CHECK dpmf_status dpmf_i_anderson_create(int64_t n, int parts, dpmf_i_anderson *out);
void dpmf_i_anderson_free(dpmf_i_anderson *anderson);
void dpmf_i_anderson_restart(dpmf_i_anderson *anderson);

/* Given x and f = G(x) - x, writes the next x over x. */
void dpmf_i_anderson_step(dpmf_i_anderson *anderson, double *x, const double *f);

#endif
