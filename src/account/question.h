/* SPDX-License-Identifier: Apache-2.0 */
/* A request for an account: the public options, checked, and the question that follows from them. */
#ifndef DPMF_ACCOUNT_QUESTION_H
#define DPMF_ACCOUNT_QUESTION_H

#include "account/account.h"
#include "account/montecarlo/montecarlo.h"

#define ACCOUNT_COMPOSITIONS_MAX ((int64_t)1000000000000000) /* 1e15: the engines have been tried up to there */
#define ACCOUNT_EPOCHS_MAX ((int64_t)1000000000)
#define ACCOUNT_GROUP_MAX ((int64_t)1000000000)

/* ---- account/amplify.c: a strategy under sampling as the numbers that accounting needs ---- */

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

/* ---- account/account.c ---- */

typedef struct account_request {
    dpmf_account_options options;
    account_question question; /* sigma, of_epsilon and given are left to the caller; of Monte Carlo, figures alone */
    int simulated;             /* Monte Carlo schemes: 1 */
    double missed;     /* Monte Carlo with a cap: upper bound on the probability that it ever affects the unit */
    int default_slack; /* the options leave the slack open */
    int default_steps; /* the options leave the number of steps open */
    account_amplified scheme;
    dpmf_strategy *identity; /* stands in for a strategy that was not given */
} account_request;

/* Checks the options and gathers the numbers. NULL options: the defaults. Close it in any case of success. */
DPMF_MUST_CHECK dpmf_status account_open(const dpmf_account_options *options, account_request *out);
void account_close(account_request *r);
/* Answers epsilon at delta = given, or delta at epsilon = given; checked by the caller. */
DPMF_MUST_CHECK dpmf_status account_request_answer(account_request *r, int of_epsilon, double sigma, double given,
                                                   dpmf_privacy *out);

/* account/gaussian.c: the parts of an answer that follow from sigma and delta: mu, rho, what it would be without the sampling. */
dpmf_privacy account_privacy(const account_request *r, double sigma, double epsilon, double delta);
/* mu of the whole run if nothing were sampled: always a bound. */
double account_known_mu(const account_request *r, double sigma);

DPMF_MUST_CHECK dpmf_status account_check_sigma(double sigma);
DPMF_MUST_CHECK dpmf_status account_check_epsilon(double epsilon);
DPMF_MUST_CHECK dpmf_status account_check_delta(double delta);

/* account/sampled.c, Monte Carlo schemes: epsilon, delta or sigma from the other two. `out` has account_privacy's parts. */
DPMF_MUST_CHECK dpmf_status account_sampled_answer(const account_request *r, int of_epsilon, double sigma,
                                                   dpmf_privacy *out);
DPMF_MUST_CHECK dpmf_status account_sampled_sigma(const account_request *r, double epsilon, double delta,
                                                  dpmf_privacy *out);
/* As account_confirm; *asked 0: the claim needs no simulation. */
DPMF_MUST_CHECK dpmf_status account_sampled_claim(const account_request *r, double sigma, double epsilon, double delta,
                                                  dpmf_privacy *out, int *asked, int *shown);

/* A scheme of kind bins, entries of the Gram matrix not negative; both directions. The question's own run does not matter. */
DPMF_MUST_CHECK dpmf_status account_correlated(const montecarlo_scheme *scheme, const account_question *q,
                                               account_answer *out);
/* A sigma, in the scheme's unit, enough for e^log_delta at the epsilon of q, near the least; the scheme's own is not read. */
DPMF_MUST_CHECK dpmf_status account_correlated_sigma(const montecarlo_scheme *scheme, const account_question *q,
                                                     double log_delta, double *sigma);

#endif
