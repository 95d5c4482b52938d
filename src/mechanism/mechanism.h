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
    dpmf_sampling sampling;
    double epsilon, delta; /* as claimed; 0: nothing is */
    double response;       /* u' P A W v; 0: not taken */
    char *made_by;
    dpmf_design_limits designed; /* dim 0: by no design */
    char digest[65];             /* empty for a strategy or workload that cannot be saved (a user's operator) */
};

enum { MECHANISM_MADE_BY_MAX = 1000 };

/* The canonical JSON text into `w` and the arrays (borrowed from the mechanism) into `tensors`. */
DPMF_MUST_CHECK dpmf_status mechanism_describe(const dpmf_mechanism *mechanism, base_writer *w, base_tensors *tensors);

/* The members of it that are given and not computed, into an open object: steps to delta, and all arrays. */
DPMF_MUST_CHECK dpmf_status mechanism_describe_inputs(const dpmf_mechanism *mechanism, base_writer *w,
                                                      base_tensors *tensors);

/*
 * The response u' P A W v of a mechanism whose given parts are set, v[i] and u[t] the numbers at 2i + 1 and 2t of a
 * sequence that all that is given chooses, P the square roots of the weights; and the size |P A W v| that its rounding is
 * to be measured by. 0 and 0 above MECHANISM_RESPONSE_STEPS_MAX steps, where two vectors would be too long, and for a user's
 * operators.
 */
#define MECHANISM_RESPONSE_STEPS_MAX ((int64_t)1 << 24)
DPMF_MUST_CHECK dpmf_status mechanism_response_of(const dpmf_mechanism *mechanism, double *response, double *size);
DPMF_MUST_CHECK dpmf_status mechanism_response_salt(const dpmf_mechanism *mechanism, uint64_t *out);
double mechanism_response_number(uint64_t salt, uint64_t index); /* in [-1, 1) */

/* Its parts shared, its numbers copied; the digest is left empty for mechanism_finish. */
DPMF_MUST_CHECK dpmf_status mechanism_copy(const dpmf_mechanism *mechanism, dpmf_mechanism **out);

/* mechanism/confirm.c: DPMF_ERROR_FORMAT where the sensitivity is larger than the mechanism says. */
DPMF_MUST_CHECK dpmf_status mechanism_confirm_sensitivity(const dpmf_mechanism *mechanism, const dpmf_run *run);

/* Checks sigma, the guarantee, the sampling and made_by, and fills in the digest. */
DPMF_MUST_CHECK dpmf_status mechanism_finish(dpmf_mechanism *mechanism);

#endif
