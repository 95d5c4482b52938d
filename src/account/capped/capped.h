/* SPDX-License-Identifier: Apache-2.0 */
/* Poisson sampling with a hard cap on the batch: its curves, and the coupling bound. */
#ifndef DPMF_ACCOUNT_CAPPED_H
#define DPMF_ACCOUNT_CAPPED_H

#include "account/grid/grid.h"
#include "account/montecarlo/montecarlo.h"

/* N units are drawn with probability q each; of more than M drawn a random M take part. 1 <= M < N, 0 < q <= 1. */
typedef struct capped_scheme {
    double q, sigma;
    int64_t cap, units;
    dpmf_adjacency adjacency;
    double binding; /* P[Bin(N-1, q) >= M], from above: that the cap binds for a unit that was drawn */
    double share;   /* p = P[the unit is drawn and kept | the cap binds], from above */
    double missed;  /* (M/N) P[Bin(N, q) > M], from above: the unit is drawn and kept, and the cap binds */
} capped_scheme;

void capped_make(double q, double sigma, int64_t cap, int64_t units, dpmf_adjacency adjacency, capped_scheme *out);

/* The curve at a = 1 + less_one >= 1, of removing the unit or, `add`, of adding it: from above. */
double capped_curve(const capped_scheme *s, int add, double less_one);

/* As a part of a list; it borrows the scheme. */
grid_part capped_part(const capped_scheme *scheme, int64_t times);

/*
 * The worse direction of a step that is composed, into *worst if it is larger. A direction that is not the first is only as fine
 * as it takes to see that it is smaller.
 */
DPMF_MUST_CHECK dpmf_status capped_answer_part(const account_question *q, const grid_part *part, account_answer *worst);

/* Over all steps of min-separation sampling, from above: that the unit is drawn and kept while the cap binds. */
DPMF_MUST_CHECK dpmf_status capped_separated(const montecarlo_scheme *scheme, int64_t cap, int64_t units,
                                             double *missed);

#endif
