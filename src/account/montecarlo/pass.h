/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over samples, which account/montecarlo/montecarlo.c bounds and account/montecarlo/claim.c tests. */
#ifndef DPMF_ACCOUNT_MONTECARLO_PASS_H
#define DPMF_ACCOUNT_MONTECARLO_PASS_H

#include "account/montecarlo/scheme.h"
#include "base/threads.h"

#define MONTECARLO_SAMPLES_MAX ((int64_t)1 << 36)

/* What a pass finds of one direction; Y are the samples in units of their largest value M = e^log_most. */
typedef struct montecarlo_side {
    double log_most;
    double mean, square; /* of Y and Y^2 */
    double log_bet;      /* of -ln(1 - bet Y) */
} montecarlo_side;

typedef struct montecarlo_passes {
    montecarlo_draws draws;
    base_pool *pool;
    double *scratch; /* of all workers */
    uint64_t seed;
    const dpmf_run *run;
} montecarlo_passes;

DPMF_MUST_CHECK dpmf_status montecarlo_passes_open(const montecarlo_scheme *scheme, uint64_t seed, const dpmf_run *run,
                                                   montecarlo_passes *out);
void montecarlo_passes_close(montecarlo_passes *passes);

/*
 * At least *samples (on return: as many as there were) of run `number`, with the aim that the draws have; found: remove, add. The
 * same number gives the same samples, another one independent ones. 0 <= bet < 1, for each direction.
 */
DPMF_MUST_CHECK dpmf_status montecarlo_passes_draw(montecarlo_passes *passes, int64_t number, const double bet[2],
                                                   int64_t *samples, montecarlo_side found[2]);

#endif
