/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting: the declarations that all engines share. Engines work with numbers only: sigma (per unit of sensitivity),
 * sampling probability, compositions, a direction; never with strategies. delta is handled as ln delta wherever it may
 * be tiny. One question type and one answer type serve all engines: each engine has one function that computes the
 * answer to a question.
 */
#ifndef DPMF_ACCOUNT_H
#define DPMF_ACCOUNT_H

#include "base/status.h"

/*
 * One step of the Poisson-subsampled Gaussian mechanism as a pair of distributions, composed `compositions` times. With
 * M(c) = (1-q) N(0, sigma^2) + q N(c, sigma^2):
 *
 *     remove   P = M(1),         Q = N(0, sigma^2)
 *     add      P = N(0, sigma^2), Q = M(1)
 *     replace  P = M(1),         Q = M(-1)           (its mirror image has the same privacy)
 *
 * delta(epsilon) = E_P[(1 - e^(epsilon - L))_+], L = ln dP/dQ summed over the steps. q = 1 is the Gaussian mechanism.
 */
typedef enum account_direction { ACCOUNT_REMOVE = 0, ACCOUNT_ADD, ACCOUNT_REPLACE } account_direction;

typedef struct account_pair {
    account_direction direction;
    double sigma;         /* > 0, finite */
    double probability;   /* q, 0 < q <= 1 */
    int64_t compositions; /* >= 1 */
} account_pair;

/* ---- question and answer ---- */

/* An engine that receives a pair or a list takes sigma, probability and compositions from there. */
typedef struct account_question {
    int of_epsilon;            /* 1: the least epsilon at ln delta = given; 0: the least ln delta at epsilon = given */
    double given;              /* ln delta < 0, or epsilon >= 0 */
    double relative, absolute; /* wanted slack in epsilon, the larger of the two, e.g. 5e-5 and 5e-6 */
    double step_max;           /* largest step of a grid of losses, or of what replaces it; 0: as the slack allows */
    const dpmf_run *run;

    double sigma; /* per zero-out sensitivity */
    double probability;
    int64_t compositions;
    int64_t picks, bins; /* random allocation: `picks` of `bins` steps, `compositions` times; 0: another sampling */
    int64_t cap, units, blocks; /* a cap on the batch, the units, and the blocks that hold the units; cap 0: no cap */
    int64_t draws;              /* every batch has this many of the units of its block; 0: another sampling */
    int replaced;               /* with draws: 1 if a unit may be drawn several times for one batch */
    int64_t group;              /* the units that are protected together; 0 or 1: one */
    /* Poisson sampling of a C of several bands: the largest row sum of C'C, the diagonal at its largest, over that; 0: one band */
    double overlap;
    double whole; /* then: the norm of the sum of all columns, over the largest norm of a column */
    dpmf_adjacency adjacency;
    dpmf_engine engine;
} account_question;

typedef struct account_answer {
    double value; /* epsilon or ln delta; never NaN */
    dpmf_certainty kind;
    const char *method;
    int met; /* was the slack reached, by the method's own estimate of its error? */
} account_answer;

/* The delta of an answer ln delta; one below every double is the smallest of them, an upper bound. */
double account_read_delta(account_answer *found);

/* account/pair.c: the trivial upper bound and the trivial lower bound of an answer. */
double account_worst(const account_question *q);
double account_least(const account_question *q);
double account_slack(const account_question *q, double epsilon); /* in epsilon */
void account_take_worse(account_answer *worst, const account_answer *found);
DPMF_MUST_CHECK dpmf_status account_check_given(const account_question *q);

/* account/account.c: computes the account that the question needs. The result is an upper bound or exact. */
DPMF_MUST_CHECK dpmf_status account_answer_question(const account_question *q, account_answer *out);
/* Estimates ln delta for the beginning of a search, by the saddle point where possible, for removing a unit (usually worse). */
DPMF_MUST_CHECK dpmf_status account_search(const account_question *q, double *log_delta);

/* account/gaussian.c: these do the same for one sampled step, composed, without caps and allocation. */
DPMF_MUST_CHECK dpmf_status account_composed(const account_question *q, account_answer *out);
DPMF_MUST_CHECK dpmf_status account_composed_search(const account_question *q, double *log_delta);
/* The pairs that count under the adjacency; returns their number. */
enum { ACCOUNT_DIRECTIONS_MAX = 2 };
int account_directions(const account_question *q, account_pair pairs[ACCOUNT_DIRECTIONS_MAX]);
/* mu of all compositions if nothing were sampled. */
double account_unsampled_mu(const account_question *q);

/* account/account.c: computes epsilon by the contour integral, for comparison in verify; *found is 0 if that fails. */
DPMF_MUST_CHECK dpmf_status account_estimate_epsilon(double sigma, double delta, const dpmf_account_options *options,
                                                     double *epsilon, int *found);

/*
 * The claim of somebody else that delta(epsilon) <= delta at sigma, where only a simulation can tell: *asked. *shown: it is true with
 * the confidence of the options, whose seed should be one that the claim could not depend on. `out` has the claimed epsilon, and the
 * delta that was found: if shown, at most the claimed one, else an estimate.
 */
DPMF_MUST_CHECK dpmf_status account_confirm(double sigma, double epsilon, double delta,
                                            const dpmf_account_options *options, dpmf_privacy *out, int *asked,
                                            int *shown);

/* ---- samplings and sentences, account/text.c ---- */

/* Returns the beginning of the sentence on arithmetic, which an exact release replaces. */
const char *account_real_noise(void);

DPMF_MUST_CHECK dpmf_status account_sampling_check(const dpmf_sampling *sampling);

/* Is a run under this checked sampling a composition of one sampled step (poisson, block-cyclic)? */
int account_sampling_composes(const dpmf_sampling *sampling);
/* DPMF_ERROR_ARGUMENT for a name that must not stand in a statement; NULL, no name, passes. */
DPMF_MUST_CHECK dpmf_status account_unit_check(const char *unit);

/* Is every unit used in a fixed number of steps, chosen at random (allocation, balls-in-bins)? */
int account_sampling_allocates(const dpmf_sampling *sampling);

/* Returns the most bands of C for which the sampling's theorem holds; 0: the theorem sets no limit. */
int64_t account_sampling_bands(const dpmf_sampling *sampling);
/* Does the sampling, poisson, have an account for several bands whose entries are not negative? */
int account_sampling_overlaps(const dpmf_sampling *sampling);
/* Returns the number of blocks that the units are split into, of which a step draws from one; 1: they are not split. */
int64_t account_sampling_blocks(const dpmf_sampling *sampling);
/* Returns the number of units of every batch of a fixed size, *replaced (may be NULL) with replacement; 0: sizes vary. */
int64_t account_sampling_draws(const dpmf_sampling *sampling, int *replaced);
/* Returns the probability that a unit whose turn it is takes part. */
double account_sampling_turn(const dpmf_sampling *sampling);
/* Can more than the cap be drawn at all? */
int account_cap_binds(const account_question *q);
/* Writes a sentence on what a user must do for the guarantee to hold; empty without sampling. Returns its length. */
size_t account_sampling_warning(const dpmf_sampling *sampling, char *out, size_t size);

/* ---- account/gaussian.c: exact; mu = sensitivity / sigma; composition adds mu^2 ---- */

double account_gaussian_log_delta(double mu, double epsilon);  /* epsilon >= 0; -inf for mu = 0 */
double account_gaussian_epsilon(double mu, double log_delta);  /* 0 if delta(0) is below; log_delta < 0 */
double account_gaussian_mu(double epsilon, double log_delta);  /* the largest mu that is (epsilon, delta) */
double account_gaussian(const account_question *q, double mu); /* epsilon or ln delta */

/* The least epsilon that holds for every rho-zCDP mechanism by the best conversion over continuous orders. */
double account_zcdp_epsilon(double rho, double log_delta);

/* ---- account/gaussian.c: Renyi divergences by quadrature, converted at the best continuous order: upper bounds ---- */

/* An upper bound of n ln M(t), INFINITY where the quadrature fails. Over t, the divergence of order 1 + t. */
double account_rdp_cumulant(const account_pair *pair, double t);
/* The same of E_P[e^(tL); x <= cut], remove and add: what lies above the cut is left out. */
double account_rdp_cumulant_below(const account_pair *pair, double cut, double t);
DPMF_MUST_CHECK dpmf_status account_rdp_answer(const account_pair *pair, const account_question *q, double *out);

/* ---- account/fourier/fourier.c: to about 1e-9 of delta where many steps make the sum of losses smooth ---- */

/* With step_max it is tighter than such a grid. Where it does not apply it quickly gives INFINITY (or ln delta 0), met = 0. */
DPMF_MUST_CHECK dpmf_status fourier_answer(const account_pair *pair, const account_question *q, account_answer *out);

/* ---- account/capped/capped.c: the account of a cap that may bind, the smaller of two ---- */

DPMF_MUST_CHECK dpmf_status capped_answer(const account_question *q, account_answer *out);

/* ---- account/capped/counted.c: batches of a fixed size, and groups of units under Poisson sampling ---- */

DPMF_MUST_CHECK dpmf_status counted_answer(const account_question *q, account_answer *out);

/* ---- account/ledger.c: the part of a ledger that comes from its file ---- */

void ledger_set_budget(dpmf_ledger *ledger, double epsilon, double delta);
void ledger_count(dpmf_ledger *ledger); /* one more entry of the file */

/*
 * Compositions and probability of a strategy under poisson or block-cyclic sampling, and the sensitivity that sigma is per unit
 * of. DPMF_ERROR_ARGUMENT when C has more than B bands (block-cyclic), or `claimed_norm` (0: none) is below the largest column
 * norm. Poisson sampling: any number of bands, entries that are not negative.
 */
typedef struct account_amplification {
    int64_t compositions;
    double probability;
    double overlap, whole;        /* as in a question: poisson, several bands */
    dpmf_sensitivity sensitivity; /* of: column */
} account_amplification;
DPMF_MUST_CHECK dpmf_status account_amplify(const dpmf_strategy *strategy, const dpmf_sampling *sampling,
                                            double claimed_norm, account_amplification *out);

/*
 * The least cap on the batch (poisson, block-cyclic; `units` in the options) whose least sigma is at most (1 + cost) times that
 * without one. cost above 0, at most 1; 0: a thousandth. `out` (may be NULL) gets the least sigma with that cap.
 */
DPMF_MUST_CHECK dpmf_status account_calibrate_cap(double epsilon, double delta, double cost,
                                                  const dpmf_account_options *options, int64_t *cap, dpmf_privacy *out);

const char *account_engine_name(dpmf_engine engine);

#endif
