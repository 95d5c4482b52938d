/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The problem that a mechanism solves, and what is known about it so far. One such struct goes through design, optimize,
 * evaluate, mechanism and verify, so that a bound or an evaluation is computed once and then handed on.
 */
#ifndef DPMF_PROBLEM_H
#define DPMF_PROBLEM_H

#include "base/status.h"

typedef enum problem_bound { PROBLEM_BOUND_UNKNOWN = 0, PROBLEM_BOUND_RMS, PROBLEM_BOUND_BOTH } problem_bound;

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
} problem_facts;

/* Takes references to what is borrowed, copies the weights, and puts single participation in the place of NULL. */
DPMF_MUST_CHECK dpmf_status problem_hold(problem_facts *p);

/* Gives back what problem_hold took. A zeroed problem is accepted. */
void problem_release(problem_facts *p);

#endif
