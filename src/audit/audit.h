/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of an audit. A run (audit/runs.c) gives scores (audit/score.c), and these give
 * bounds.
 */
#ifndef DPMF_AUDIT_H
#define DPMF_AUDIT_H

#include "base/status.h"

struct dpmf_audit {
    const dpmf_mechanism *mechanism; /* borrowed while the audit is made */
    dpmf_audit_options options;      /* with the defaults filled in */
    int64_t canaries, steps;
    uint8_t *included; /* of each canary */
    uint8_t *taken;    /* canaries x steps: the sampler took it */
    double *released;  /* canaries x steps, in clip norms */
    double *score;     /* of each canary */
    double *projected; /* the released sums along C u, u the steps that took the canary, over |C u| ... */
    double *norm;      /* ... and |C u|; 0: it was never taken */
    double largest;    /* the largest change by a canary that was taken, as the mechanism's sensitivity counts it */
    dpmf_audit_result result;
};

/* +1 or 0 for a canary that is in or out; +1 or -1 where neighbours replace (zero is no form of a canary then). */
static inline double audit_sign(const dpmf_audit *a, int64_t canary) {
    const int replaced = dpmf_mechanism_get(a->mechanism).adjacency == DPMF_ADJACENCY_REPLACE_ONE;
    return a->included[canary] ? 1 : replaced ? -1 : 0;
}

DPMF_MUST_CHECK dpmf_status audit_allocate(dpmf_audit *audit, int64_t canaries);

/* The two runs: allocate, and fill included, taken and released. `actual` is the mechanism that makes the noise. */
DPMF_MUST_CHECK dpmf_status audit_run_noise(dpmf_audit *audit, const dpmf_mechanism *actual,
                                            const uint8_t key[DPMF_KEY_SIZE]);
DPMF_MUST_CHECK dpmf_status audit_run_trained(dpmf_audit *audit, const dpmf_mechanism *actual,
                                              const uint8_t key[DPMF_KEY_SIZE]);

/* Fills score, projected, norm and largest. */
DPMF_MUST_CHECK dpmf_status audit_score(dpmf_audit *audit);

/* The largest epsilon that limits P[`correct` or more of `guesses` right] to `failure` (audit/bounds.c); 0: none. */
double audit_guess_epsilon(int64_t canaries, int64_t guesses, int64_t correct, double delta, double failure);

/* The best of several ways to guess, all of which together fail with probability `failure`; tpr and fpr. */
DPMF_MUST_CHECK dpmf_status audit_guess(dpmf_audit *audit, double failure);

/* From the size of noise and contributions (audit/bounds.c). */
DPMF_MUST_CHECK dpmf_status audit_gaussian(dpmf_audit *audit, double failure);

#endif
