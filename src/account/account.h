/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting: what the engines share. They know numbers only: sigma (per unit of sensitivity), sampling probability,
 * compositions, a direction; never strategies. delta is handled as ln delta wherever it may be tiny. One question type
 * and one answer type serve all engines: each has one function that answers.
 */
#ifndef DPMF_ACCOUNT_H
#define DPMF_ACCOUNT_H

#include "base/status.h"

#include <math.h>

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

/* What is asked, and of which run. An engine that is given a pair or a list takes the run from there. */
typedef struct account_question {
    int of_epsilon;            /* 1: the least epsilon at ln delta = given; 0: the least ln delta at epsilon = given */
    double given;              /* ln delta < 0, or epsilon >= 0 */
    double relative, absolute; /* wanted slack in epsilon, whichever is larger, e.g. 5e-5 and 5e-6 */
    double step_max;           /* of a grid of losses, and a bound on what stands in for one; 0: as the slack allows */
    const dpmf_run *run;

    double sigma; /* per zero-out sensitivity */
    double probability;
    int64_t compositions;
    int64_t picks, bins; /* random allocation: so many of so many steps, `compositions` times; 0: something else */
    int64_t cap, units, blocks; /* a cap on the batch, and the units in so many blocks; 0: no cap */
    dpmf_adjacency adjacency;
    dpmf_engine engine;
} account_question;

typedef struct account_answer {
    double value; /* epsilon or ln delta; never NaN */
    dpmf_kind kind;
    const char *method;
    int met; /* was the slack reached, as far as the method's own error estimate can tell? */
} account_answer;

/* What always holds, and what nothing is below. */
static inline double account_worst(const account_question *q) {
    return q->of_epsilon ? INFINITY : 0;
}

static inline double account_least(const account_question *q) {
    return q->of_epsilon ? 0 : -INFINITY;
}

static inline double account_slack(const account_question *q, double epsilon) {
    return fmax(q->relative * epsilon, q->absolute);
}

/* The worse of the answers for two directions. */
static inline void account_take_worse(account_answer *worst, const account_answer *found) {
    if (found->value > worst->value) worst->met = found->met;
    worst->value = fmax(worst->value, found->value);
}

/* account/pair.c: DPMF_ERROR_ARGUMENT unless what is given is a finite ln delta below 0, or a finite epsilon of at least 0. */
DPMF_MUST_CHECK dpmf_status account_check_given(const account_question *q);

/* account/question.c: the account that the question needs; an upper bound, or exact. */
DPMF_MUST_CHECK dpmf_status account_answer_question(const account_question *q, account_answer *out);
/*
 * About ln delta at the epsilon given, for the beginning of a search: by the saddle point where possible, and of removing
 * a unit alone, usually the worse.
 */
DPMF_MUST_CHECK dpmf_status account_search(const account_question *q, double *log_delta);

/* account/composed.c: the same without caps and allocation: one sampled step, composed. */
DPMF_MUST_CHECK dpmf_status composed_answer(const account_question *q, account_answer *out);
DPMF_MUST_CHECK dpmf_status composed_search(const account_question *q, double *log_delta);
/* By the contour integral, for comparison: near exact, not certified. *found 0: it cannot be had. */
DPMF_MUST_CHECK dpmf_status account_estimate(const account_question *q, double *value, int *found);
/* mu of all compositions if nothing were sampled. */
double account_unsampled_mu(const account_question *q);

/* account/account.c: epsilon by the contour integral, for what verify compares with; *found 0: it cannot be had. */
DPMF_MUST_CHECK dpmf_status account_estimate_epsilon(double sigma, double delta, const dpmf_account_options *options,
                                                     double *epsilon, int *found);

/* ---- samplings and sentences, account/text.c ---- */

/* How the sentence on arithmetic begins, which an exact release replaces. */
const char *account_real_noise(void);

/* DPMF_ERROR_ARGUMENT if a value is out of range. */
DPMF_MUST_CHECK dpmf_status account_sampling_check(const dpmf_sampling *sampling);

/* Is a run under it so many compositions of one sampled step (poisson, block-cyclic)? Of a sampling that was checked. */
int account_sampling_composes(const dpmf_sampling *sampling);
/* Is every unit used in so many steps, chosen at random (allocation, balls-in-bins)? */
int account_sampling_allocates(const dpmf_sampling *sampling);

/* The most bands of C for which its theorem holds; 0: it asks for none. */
int64_t account_sampling_bands(const dpmf_sampling *sampling);
/* In how many blocks the units are split, of which a step draws from one; 1 where they are not. */
int64_t account_sampling_blocks(const dpmf_sampling *sampling);
/* What a user must do for the guarantee to hold, as a sentence; empty without sampling. Returns its length. */
size_t account_sampling_warning(const dpmf_sampling *sampling, char *out, size_t size);

/* ---- account/gaussian.c: exact; mu = sensitivity / sigma; composition adds mu^2 ---- */

double account_gaussian_log_delta(double mu, double epsilon);  /* epsilon >= 0; -inf for mu = 0 */
double account_gaussian_epsilon(double mu, double log_delta);  /* 0 if delta(0) is below; log_delta < 0 */
double account_gaussian_mu(double epsilon, double log_delta);  /* the largest mu that is (epsilon, delta) */
double account_gaussian(const account_question *q, double mu); /* whichever is asked */

/* The least epsilon that holds for every rho-zCDP mechanism by the best conversion over continuous orders. */
double account_zcdp_epsilon(double rho, double log_delta);

/* ---- account/rdp.c: Renyi divergences by quadrature, converted at the best continuous order: upper bounds ---- */

/* An upper bound of n ln M(t), INFINITY where the quadrature fails. Over t, the divergence of order 1 + t. */
double account_rdp_cumulant(const account_pair *pair, double t);
DPMF_MUST_CHECK dpmf_status account_rdp_answer(const account_pair *pair, const account_question *q, double *out);

/* ---- account/fourier/fourier.c: to about 1e-9 of delta where many steps make the sum of losses smooth ---- */

/*
 * With step_max the answer is tighter than that of a grid of that step would be. Where the method has nothing to say, the
 * answer is INFINITY, or ln 1, and not met; that costs little.
 */
DPMF_MUST_CHECK dpmf_status fourier_answer(const account_pair *pair, const account_question *q, account_answer *out);

/* ---- account/capped/account.c: the account of a cap that may bind, the smaller of two ---- */

DPMF_MUST_CHECK dpmf_status capped_answer(const account_question *q, account_answer *out);
/* Can more than the cap be drawn at all? */
static inline int account_cap_binds(const account_question *q) {
    return q->cap > 0 && q->cap < (q->units + q->blocks - 1) / q->blocks;
}

/* ---- account/ledger/ledger.c: what a ledger knows of the file that it comes from ---- */

void ledger_set_budget(dpmf_ledger *ledger, double epsilon, double delta);
void ledger_count(dpmf_ledger *ledger); /* one more entry of the file */

#endif
