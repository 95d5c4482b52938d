/* SPDX-License-Identifier: Apache-2.0 */
/* What `account` was asked and what it found; how that is said. */
#ifndef DPMF_CLI_ACCOUNT_H
#define DPMF_CLI_ACCOUNT_H

#include "observed.h"
#include "options/options.h"

enum { CURVE_POINTS = 15, STATEMENT_MAX = 6000 };

/* What is asked, and with what. */
typedef enum asked { ASK_EPSILON, ASK_DELTA, ASK_SIGMA, ASK_RHO, ASK_STEPS, ASK_PROBABILITY } asked;

typedef struct account {
    asked ask;
    double sigma; /* 0: not known */
    double epsilon, delta;
    dpmf_mechanism *mechanism;
    dpmf_account_options how;
    dpmf_privacy found;
    int64_t most_steps;
    double most_probability;
    double curve[CURVE_POINTS];
    char statement[STATEMENT_MAX];
    observed_run observed;
    dpmf_tuning tuning;
    dpmf_privacy tuned; /* of the best of a random number of runs; delta 0: not asked for */
    double recomputed;  /* of a FILE that claims epsilon at this delta: what it is; found has the claim. 0: not so */
} account;

/* The guarantee in sentences, into a->statement. */
void account_statement(const arguments *given, account *a);

/* As a table or, with --json, as JSON; the exit code. */
int print_account(const arguments *given, const account *a);

#endif
