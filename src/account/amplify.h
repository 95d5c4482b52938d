/* SPDX-License-Identifier: Apache-2.0 */
/* Amplification: turns a strategy under sampling into the numbers that accounting needs. */
#ifndef DPMF_ACCOUNT_AMPLIFY_H
#define DPMF_ACCOUNT_AMPLIFY_H

#include "account/montecarlo/montecarlo.h"
#include "base/status.h"

/* A Monte Carlo scheme and what it owns. sigma is left at 0 for the caller. */
typedef struct account_amplified {
    montecarlo_scheme scheme;
    double *numbers;         /* the scheme's Gram matrix or columns */
    double norm;             /* the largest column norm of C, which the user's sigma is per unit of */
    dpmf_sensitivity sensed; /* of C if the sampling were known: under cyclic or min-separation participation */
} account_amplified;

/* Balls-in-bins or min-sep; C needs non-negative entries, and at most B bands for min-sep. */
DPMF_MUST_CHECK dpmf_status account_amplify_scheme(const dpmf_strategy *strategy, const dpmf_sampling *sampling,
                                                   int warm, const dpmf_run *run, account_amplified *out);
void account_amplified_free(account_amplified *amplified);

#endif
