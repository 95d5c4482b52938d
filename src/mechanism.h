/* SPDX-License-Identifier: Apache-2.0 */
/* Mechanism: the record, and its canonical description, which is what the digest and the file are made of. */
#ifndef DPMF_MECHANISM_H
#define DPMF_MECHANISM_H

#include "base/json.h"
#include "base/safetensors.h"
#include "base/status.h"

struct dpmf_mechanism {
    int64_t steps;
    dpmf_workload *workload;
    dpmf_participation *participation;
    dpmf_strategy *strategy;
    double *weights; /* NULL: none */
    dpmf_evaluation evaluation;
    dpmf_adjacency adjacency;
    dpmf_sensitivity_bound bound; /* as asked for; the sensitivity's method says what came of it */
    double sigma;                 /* 0: not calibrated */
    char *made_by;
    char digest[65]; /* empty for a strategy or workload that cannot be saved (a user's operator) */
};

enum { DPMF_I_MADE_BY_MAX = 1000 };

/* The canonical JSON text into `w` and the arrays (borrowed from the mechanism) into `tensors`. */
DPMF_MUST_CHECK dpmf_status dpmf_i_mechanism_describe(const dpmf_mechanism *mechanism, dpmf_i_writer *w,
                                                      dpmf_i_tensors *tensors);

/* Checks sigma and made_by, and fills in the digest. */
DPMF_MUST_CHECK dpmf_status dpmf_i_mechanism_finish(dpmf_mechanism *mechanism);

#endif
