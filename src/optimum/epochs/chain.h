/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix sums over long epochs with a V that is the same over runs of positions (optimum/epochs/chain.c). */
#ifndef DPMF_OPTIMUM_EPOCHS_CHAIN_H
#define DPMF_OPTIMUM_EPOCHS_CHAIN_H

#include "base/status.h"

typedef struct epochs_run {
    int64_t length;  /* positions */
    int64_t members; /* epochs that have them: k, or k - 1 after the last step */
    int grounded;    /* the last of all steps is here, in the last epoch: length 1 */
    const double *v; /* k x k, the first `members` rows and columns are read */
} epochs_run;

/*
 * tr V (K + shift V)^-1. Three runs at least; the first, the last, and one before fewer members have length 1; a last run
 * with all members is grounded.
 */
DPMF_MUST_CHECK dpmf_status epochs_chain_trace(int64_t k, int64_t count, const epochs_run *runs, double shift,
                                               double *trace);

#endif
