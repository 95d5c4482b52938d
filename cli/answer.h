/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a mechanism, as evaluate and optimize print them. */
#ifndef DPMF_CLI_ANSWER_H
#define DPMF_CLI_ANSWER_H

#include "output.h"
#include "problem.h"
#include "regret.h"
#include "spectrum.h"

typedef struct optimized {
    dpmf_optimization result;
    double seconds;
    bool damped; /* the damped square root: nu is part of the answer */
} optimized;

typedef struct answer {
    dpmf_evaluation found;
    double *per_step;          /* NULL: not asked for */
    const optimized *found_by; /* NULL: nothing was optimized */
    const spectrum *risk;      /* NULL: not asked for */
    const regret *learning;    /* NULL: not asked for */
    dpmf_sensitivity joint;    /* with the squares of coordinates; value 0: not asked for */
    dpmf_privacy privacy;      /* with --epsilon and --delta; sigma 0: not asked for */
} answer;

/*
 * Prints it as a table or, with --json, as JSON, and returns the exit code. Without p->strategy the family is the dense
 * optimum, too large to be formed: a loss of 0 is not known.
 */
int print_answer(const arguments *given, const problem *p, const answer *a);

/* --epsilon and --delta: both or none. 0, or the exit code after a message. */
int check_guarantee_options(const arguments *given);

/* Evaluates p->strategy as the options ask, saves the mechanism if --out is given, and returns the exit code. */
int evaluate_problem(const arguments *given, const problem *p, answer *a);

/* --loss is neither rms nor max: the evaluation has it as `loss`. */
bool is_other_loss(const arguments *given);

#endif
