/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over samples: what account/montecarlo/montecarlo.c bounds and account/montecarlo/claim.c tests. */
#ifndef DPMF_ACCOUNT_MONTECARLO_PASS_H
#define DPMF_ACCOUNT_MONTECARLO_PASS_H

#include "account/montecarlo/scheme.h"
#include "base/threads.h"

#define DPMF_I_ACCOUNT_MONTECARLO_SAMPLES_MAX ((int64_t)1 << 36)

/* What a pass finds of one direction; Y are the samples in units of their largest value M = e^log_most. */
typedef struct dpmf_i_account_montecarlo_side {
    double log_most;
    double mean, square; /* of Y and Y^2 */
    double log_bet;      /* of -ln(1 - bet Y) */
} dpmf_i_account_montecarlo_side;

typedef struct dpmf_i_account_montecarlo_passes {
    dpmf_i_account_montecarlo_draws draws;
    dpmf_i_base_pool *pool;
    double *scratch; /* of all workers */
    uint64_t seed;
    const dpmf_run *run;
} dpmf_i_account_montecarlo_passes;

DPMF_MUST_CHECK dpmf_status dpmf_i_account_montecarlo_passes_open(const dpmf_i_account_montecarlo_scheme *scheme,
                                                                  uint64_t seed, const dpmf_run *run,
                                                                  dpmf_i_account_montecarlo_passes *out);
void dpmf_i_account_montecarlo_passes_close(dpmf_i_account_montecarlo_passes *passes);

/*
 * At least *samples (on return: as many as there were) of run `number`, with the aim that the draws have; found: remove, add. The
 * same number gives the same samples, another one independent ones. 0 <= bet < 1, for each direction.
 */
DPMF_MUST_CHECK dpmf_status dpmf_i_account_montecarlo_passes_draw(dpmf_i_account_montecarlo_passes *passes,
                                                                  int64_t number, const double bet[2], int64_t *samples,
                                                                  dpmf_i_account_montecarlo_side found[2]);

#endif
