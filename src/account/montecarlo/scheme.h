/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of the privacy loss of a sampling scheme, which account/montecarlo/montecarlo.c averages. The schemes are in
 * account/montecarlo/montecarlo.h, the mathematics of the proposals in account/montecarlo/scheme.c.
 */
#ifndef DPMF_ACCOUNT_MONTECARLO_SCHEME_H
#define DPMF_ACCOUNT_MONTECARLO_SCHEME_H

#include "account/montecarlo/montecarlo.h"
#include "base/threads.h"
#include "kernels/sample/sample.h"

#include <math.h>
#include <string.h>

enum {
    MONTECARLO_LANES = KERNELS_SAMPLE_LANES
}; /* samples in a block, side by side so that loops over them are vectors */

/* A scheme with what its samples need. The numbers of the scheme are borrowed. Threads may share it between aims. */
typedef struct montecarlo_draws {
    montecarlo_scheme scheme; /* sigma: that of the last aim */
    int64_t dimension;        /* of an outcome: bins, or steps */
    double *squares;          /* |m_j|^2 of the bins; |c_i|^2 of the columns */
    double *mean;             /* bins: <m_j, mean m>; separated: the mean of C x, in outcome space */
    double *root;             /* bins: lower triangular, root root' = gram */
    int64_t *first;           /* bins: the first non-zero entry of each row of the root */
    double mean_square;       /* E |m|^2 over the mixture */
    double square_mean;       /* |E m|^2 */
    double largest;           /* max |m|^2 */
    int64_t scratch;          /* doubles that a block needs */
    int64_t blocks;           /* samples come in multiples of this many blocks: each bin as often as any other */

    const kernels_sample_set *kernels;

    double epsilon;                       /* from here on: of the last aim */
    double tilt_remove, tilt_add;         /* 1 and 0: plain sampling */
    double log_most_remove, log_most_add; /* ln of the largest value that a sample can take; 0 for plain sampling */
} montecarlo_draws;

/* Checks the scheme and prepares it. Free it with montecarlo_draws_free, also after a failure. */
DPMF_MUST_CHECK dpmf_status montecarlo_draws_create(const montecarlo_scheme *scheme, montecarlo_draws *out);
void montecarlo_draws_free(montecarlo_draws *draws);

/* Sets sigma and epsilon, and the proposals: the best of their family if `tilted`, else the plain distributions. */
void montecarlo_draws_aim(montecarlo_draws *draws, double sigma, double epsilon, int tilted);

/*
 * MONTECARLO_LANES samples for each direction, a function of (seed, run, block) alone, run < 2^23, block < 2^40. Each is in
 * [0, 1]; over `blocks` consecutive blocks e^log_most times the mean is delta(epsilon) of the direction.
 */
void montecarlo_draws_block(const montecarlo_draws *draws, uint64_t seed, int64_t run, int64_t block, double *scratch,
                            double remove[MONTECARLO_LANES], double add[MONTECARLO_LANES]);

/* ---- account/montecarlo/montecarlo.c: passes over samples ---- */

#define MONTECARLO_SAMPLES_MAX ((int64_t)1 << 36)

/* The bets of a claim's test (montecarlo.c): MONTECARLO_BET_LARGEST, half of it, and so on. */
enum { MONTECARLO_BETS = 9 };
#define MONTECARLO_BET_LARGEST 0.95

/* What a pass finds of one direction; Y are the samples in units of their largest value M = e^log_most. */
typedef struct montecarlo_side {
    double log_most;
    double mean, square;              /* of Y and Y^2 */
    double log_bet;                   /* of -ln(1 - bet Y) */
    double log_bets[MONTECARLO_BETS]; /* the same for each bet of a claim's test; 0 unless the passes count them */
} montecarlo_side;

typedef struct montecarlo_passes {
    montecarlo_draws draws;
    base_pool *pool;
    double *scratch; /* of all workers */
    uint64_t seed;
    const dpmf_run *run;
    int counts_bets; /* 1: log_bets are summed too */
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

DPMF_MUST_CHECK dpmf_status montecarlo_check_options(const montecarlo_options *options);
DPMF_MUST_CHECK dpmf_status montecarlo_check_epsilon(double epsilon);
int64_t montecarlo_default_cap(const montecarlo_draws *draws, double delta); /* the most samples of a bound of delta */

/* The most samples of the test of a claim (account/montecarlo/claim.c). */
double montecarlo_claim_samples(const montecarlo_draws *draws, double delta);

/* ---- inside ---- */

static inline double montecarlo_bet(int i) {
    return ldexp(MONTECARLO_BET_LARGEST, -i);
}

#define MONTECARLO_EXPONENT_MAX 200.0 /* of the exponentials of kernels/sample/sample.h */

/* The value of one sample from ln of its ratio, weight and bound. What is no number, beyond the range of doubles, has the largest. */
static inline double montecarlo_draws_value(double excess, double log_weight, double log_most) {
    if (excess <= 0) return 0;
    return fmin(exp(log_weight - log_most) * -expm1(-excess), 1); /* above 1 by rounding only */
}

void montecarlo_draws_block_separated(const montecarlo_draws *draws, uint64_t seed, uint64_t stream, double *scratch,
                                      double remove[MONTECARLO_LANES], double add[MONTECARLO_LANES]);

/*
 * ln sum_x pi(x) exp(s l(x) - s (s-1) |C x|^2 / (2 sigma^2)) for the b-min-separation mixture; s = 1 is the log ratio. Entry i
 * of the outcome, in units of sigma, is outcome[i * stride]; window: `separation` (at most `steps`) doubles.
 */
double montecarlo_separated_log_ratio(const montecarlo_draws *draws, double s, const double *outcome, int64_t stride,
                                      double *window);
/* The same for MONTECARLO_LANES outcomes side by side, scaled instead of in log space where that is safe. */
void montecarlo_separated_log_ratios(const montecarlo_draws *draws, double s, const double *outcomes, double *window,
                                     double out[MONTECARLO_LANES]);

#endif
