/* SPDX-License-Identifier: Apache-2.0 */
/* A question about privacy as the user asks it, made into what accounting knows. */
#ifndef DPMF_ACCOUNT_QUESTION_H
#define DPMF_ACCOUNT_QUESTION_H

#include "account/account.h"
#include "account/amplify.h"

#define ACCOUNT_COMPOSITIONS_MAX ((int64_t)1000000000000000) /* 1e15: the engines have been tried up to there */
#define ACCOUNT_EPOCHS_MAX ((int64_t)1000000000)

typedef struct account_question {
    dpmf_account_options options;
    account_composed composed; /* sigma left at 0; meaningless for Monte Carlo */
    int sampled;               /* Monte Carlo schemes: 1 */
    double missed;     /* Monte Carlo with a cap: the probability, from above, that it ever has to do with the unit */
    int unasked_slack; /* the slack is the default */
    int unasked_steps; /* nobody said how many steps there are */
    account_amplified scheme;
    dpmf_strategy *identity; /* stands in for a strategy that was not given */
} account_question;

/* Checks the options and gathers the numbers. NULL options: the defaults. Close it in any case of success. */
DPMF_MUST_CHECK dpmf_status account_question_open(const dpmf_account_options *options, account_question *out);
void account_question_close(account_question *q);

/* The parts of an answer that follow from sigma and delta: mu, rho, what it would be without the sampling. */
dpmf_privacy account_question_answer(const account_question *q, double sigma, double epsilon, double delta);

/* DPMF_ERROR_ARGUMENT outside what is accepted. */
DPMF_MUST_CHECK dpmf_status account_check_sigma(double sigma);
DPMF_MUST_CHECK dpmf_status account_check_epsilon(double epsilon);
DPMF_MUST_CHECK dpmf_status account_check_delta(double delta);

/* account/sampled.c: the three questions for Monte Carlo schemes; *out has its common parts already. */
DPMF_MUST_CHECK dpmf_status account_sampled_epsilon(const account_question *q, double sigma, double delta,
                                                    dpmf_privacy *out);
DPMF_MUST_CHECK dpmf_status account_sampled_delta(const account_question *q, double sigma, double epsilon,
                                                  dpmf_privacy *out);
DPMF_MUST_CHECK dpmf_status account_sampled_sigma(const account_question *q, double epsilon, double delta,
                                                  dpmf_privacy *out);

#endif
