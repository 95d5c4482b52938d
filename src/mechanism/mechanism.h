/* SPDX-License-Identifier: Apache-2.0 */
/* Mechanism: the record, and its canonical description, which is what the digest and the file are made of. */
#ifndef DPMF_MECHANISM_H
#define DPMF_MECHANISM_H

#include "base/json.h"
#include "base/safetensors.h"
#include "base/status.h"
#include "problem/problem.h"

struct dpmf_mechanism {
    problem_facts problem; /* held; its evaluation is that of the strategy, as computed or as the file claims */
    dpmf_strategy *strategy;
    dpmf_sensitivity_bound bound; /* as requested; the sensitivity's method names the one that was used */
    double sigma;                 /* 0: not calibrated */
    dpmf_sampling sampling;
    double response; /* u' P A W v; 0: not taken */
    char *made_by;
    char *unit;                  /* NULL: not recorded */
    int64_t group;               /* units that are protected together; 0: one */
    dpmf_design_limits designed; /* dim 0: by no design */
    char digest[65];             /* empty for a strategy or workload that cannot be saved (a user's operator) */
    int confirmed; /* 1: this object's claims hold (dpmf_mechanism_confirm), and `found` is what was found */
    dpmf_privacy found;
};

enum { MECHANISM_MADE_BY_MAX = 1000 };

/* Writes the canonical JSON text to `w` and adds the arrays (borrowed from the mechanism) to `tensors`. */
DPMF_MUST_CHECK dpmf_status mechanism_describe(const dpmf_mechanism *mechanism, base_writer *w, base_tensors *tensors);

/* The response u' P A W v (mechanism/mechanism.c), and |P A W v|; both are 0 above this many steps and for users' operators. */
#define MECHANISM_RESPONSE_STEPS_MAX ((int64_t)1 << 24)
DPMF_MUST_CHECK dpmf_status mechanism_response_of(const dpmf_mechanism *mechanism, double *response, double *size);
DPMF_MUST_CHECK dpmf_status mechanism_response_salt(const dpmf_mechanism *mechanism, uint64_t *out);
double mechanism_response_number(uint64_t salt, uint64_t index); /* in [-1, 1) */

/* DPMF_ERROR_FORMAT where the sensitivity is larger than the mechanism claims. */
DPMF_MUST_CHECK dpmf_status mechanism_confirm_sensitivity(const dpmf_mechanism *mechanism, const dpmf_run *run);

/* Computes the lower bound for both losses, as far as it is not known yet. */
DPMF_MUST_CHECK dpmf_status mechanism_bound(const problem_facts *p, const dpmf_evaluate_options *o,
                                            dpmf_lower_bound *out);

/* Makes a mechanism of an evaluated problem; options: sigma, sampling, made_by, unit, designed and the sensitivity's bound. */
DPMF_MUST_CHECK dpmf_status mechanism_make(const problem_facts *p, const dpmf_strategy *strategy,
                                           const dpmf_mechanism_options *o, dpmf_mechanism **out);

/* Refuses a stream of `dim` numbers in all where the sensitivity holds for one column alone. */
DPMF_MUST_CHECK dpmf_status mechanism_check_columns(const dpmf_mechanism *mechanism, int64_t dim);

/* Checks sigma, the guarantee, the sampling, the unit and made_by, and fills in the digest. */
DPMF_MUST_CHECK dpmf_status mechanism_finish(dpmf_mechanism *mechanism);

#endif
