/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The problem that a mechanism solves, and what is known about it so far. One such struct goes through design, optimize,
 * evaluate, mechanism and verify, so that a bound or an evaluation is computed once and then handed on.
 */
#ifndef DPMF_PROBLEM_H
#define DPMF_PROBLEM_H

#include "base/status.h"

typedef enum problem_bound { PROBLEM_BOUND_UNKNOWN = 0, PROBLEM_BOUND_RMS, PROBLEM_BOUND_BOTH } problem_bound;

/* ---- losses (problem/loss.c) ---- */

typedef struct problem_loss {
    dpmf_loss kind;
    double power;
    const dpmf_loss_function *own; /* borrowed */
} problem_loss;

/* Refuses a kind, a power or a function that is none; `what` begins the message. */
DPMF_MUST_CHECK dpmf_status problem_loss_check(const problem_loss *l, const char *what);

/* f(q) for n squared errors, and its gradient unless NULL. */
double problem_loss_value(const problem_loss *l, int64_t n, const double *q, double *gradient);

/* f of the squares of these errors; a value that is negative or not finite is refused. */
DPMF_MUST_CHECK dpmf_status problem_loss_of(const problem_loss *l, int64_t n, const double *errors, double *out);

/* Is f^2 known to be convex in q, with no negative derivative? Of a caller's own loss: as stated. */
int problem_loss_is_convex(const problem_loss *l);

/* "rms", "max", "lp:P", "last" and "own", and back, the last excepted: as mechanism files spell it. */
enum { PROBLEM_LOSS_TEXT = 40 };
void problem_loss_text(const problem_loss *l, char text[PROBLEM_LOSS_TEXT]);
DPMF_MUST_CHECK dpmf_status problem_loss_read(const char *text, problem_loss *out);

typedef struct problem_facts {
    int64_t steps;
    const dpmf_workload *workload;
    const dpmf_participation *participation; /* of mechanisms never NULL; elsewhere NULL means single */
    const double *weights;                   /* NULL: all steps alike */
    dpmf_adjacency adjacency;
    dpmf_loss loss;
    double epsilon, delta;      /* the privacy that is wanted or claimed; 0: none */
    problem_bound bound_known;  /* of evaluation.lower_bound, which is that of the problem */
    dpmf_evaluation evaluation; /* of the strategy in hand */
    double loss_power;          /* of DPMF_LOSS_LP */
} problem_facts;

/* Takes references to what is borrowed, copies the weights, and puts single participation in the place of NULL. */
DPMF_MUST_CHECK dpmf_status problem_hold(problem_facts *p);

/* Gives back what problem_hold took. A zeroed problem is accepted. */
void problem_release(problem_facts *p);

#endif
