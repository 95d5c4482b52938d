/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monte Carlo accounting of sampling schemes whose privacy loss has no closed form: balls-in-bins and b-min-separation
 * sampling under a banded or Toeplitz C with non-negative entries. The schemes come as numbers: a Gram matrix of the
 * bins, or the columns of C.
 */
#ifndef DPMF_ACCOUNT_MONTECARLO_H
#define DPMF_ACCOUNT_MONTECARLO_H

#include "base/status.h"

/* One privacy-loss model; sigma is the standard deviation of the noise on C x (not per unit of sensitivity). */
typedef enum montecarlo_scheme_kind { MONTECARLO_SCHEME_BINS = 0, MONTECARLO_SCHEME_SEPARATED } montecarlo_scheme_kind;
typedef struct montecarlo_scheme {
    montecarlo_scheme_kind kind;
    double sigma;
    /* bins: each example is in one of `bins` bins, used once per epoch; gram[i * bins + j] = <m_i, m_j>, m_j the sum of
     * the columns of C that bin j touches */
    int64_t bins;
    const double *gram;
    /* separated: join with this probability, then wait `separation` steps. Column i of C from its diagonal on:
     * columns[i * bands + j] = C[i+j, i] (0 past the last row), bands <= separation */
    int64_t steps, separation, bands;
    double probability;
    int warm; /* the first step finds the example anywhere in its wait (stationary), not free */
    const double *columns;
} montecarlo_scheme;

/* The log-likelihood ratio ln dP/dQ at one outcome: bins: u_j = <m_j, y> (`bins` numbers); separated: y (`steps`). */
DPMF_MUST_CHECK dpmf_status montecarlo_scheme_log_ratio(const montecarlo_scheme *scheme, const double *outcome,
                                                        double *out);

typedef struct montecarlo_options {
    int64_t samples;   /* of the pass that decides; 0: chosen from a first pass, at most 3e7 or 30/delta */
    double confidence; /* e.g. 0.99: the probability that the bound holds, in (0, 1) */
    uint64_t seed;
    const dpmf_run *run;
} montecarlo_options;

/* An upper bound of delta(epsilon), both directions, with the confidence; at most the composed Gaussian's for the worst m. */
DPMF_MUST_CHECK dpmf_status montecarlo_delta(const montecarlo_scheme *scheme, double epsilon,
                                             const montecarlo_options *options, double *delta);
/* An epsilon for delta in [1e-6, 1) with the confidence, confirmed on other samples; below, samples would be too many. */
DPMF_MUST_CHECK dpmf_status montecarlo_epsilon(const montecarlo_scheme *scheme, double delta,
                                               const montecarlo_options *options, double *epsilon);
/*
 * The least scale of sigma (times scheme->sigma) for (epsilon, delta), in the same way, and with so much room that montecarlo_shows,
 * with other randomness, fails with probability 1e-6 at most.
 */
DPMF_MUST_CHECK dpmf_status montecarlo_scale(const montecarlo_scheme *scheme, double epsilon, double delta,
                                             const montecarlo_options *options, double *scale);

/*
 * Do samples show that delta(epsilon) <= delta? A false claim is shown with probability 1 - confidence at most, however long it takes.
 * *found: if shown, the least delta that these samples show; else an estimate. The number of samples follows from the claim.
 */
DPMF_MUST_CHECK dpmf_status montecarlo_shows(const montecarlo_scheme *scheme, double epsilon, double delta,
                                             const montecarlo_options *options, int *shown, double *found);

/* The delta, without a confidence, of a mechanism that tests the claim delta_b on `samples` samples (montecarlo.c, the test). */
double montecarlo_unconditional(double delta_b, int64_t samples);
/* The largest claim delta_b with which `samples` give at most delta; refused where none does. */
DPMF_MUST_CHECK dpmf_status montecarlo_claim(double delta, int64_t samples, double *delta_b);
/* Does the claim pass with at least `samples` of each direction? *mean is the larger of the two means. */
DPMF_MUST_CHECK dpmf_status montecarlo_test(const montecarlo_scheme *scheme, double epsilon, double delta_b,
                                            int64_t samples, uint64_t seed, const dpmf_run *run, int *passed,
                                            double *mean);

#endif
