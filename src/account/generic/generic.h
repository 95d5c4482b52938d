/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mechanisms that are known by a guarantee or by a privacy curve, not by their noise: (epsilon, delta), Laplace, privacy loss
 * distributions of others. account/ledger.c composes them with everything else.
 */
#ifndef DPMF_ACCOUNT_GENERIC_H
#define DPMF_ACCOUNT_GENERIC_H

#include "account/grid/grid.h"

/* ---- account/generic/law.c: losses with their masses, as a curve ---- */

/*
 * H(x) = E[(1 - e^(x - L))_+] at x >= 0 from above. Points: losses that rise from 0; at infinity `infinite`. The curve at a point is
 * infinite + finite[k]; slope[k] is the sum over the losses above point k of mass e^(loss[k+1] - loss).
 */
typedef struct generic_law {
    int64_t count;   /* 0: no law */
    double *loss;    /* owned, with the other two */
    double *finite;  /* falls; the last is 0 */
    double *slope;   /* the last is 0 */
    double infinite; /* mass of infinite loss */
} generic_law;

/* From losses above 0 that rise and their masses, each within `error` of itself; count may be 0. */
DPMF_MUST_CHECK dpmf_status generic_law_create(int64_t count, const double *loss, const double *mass, double infinite,
                                               double error, generic_law *out);
DPMF_MUST_CHECK dpmf_status generic_law_copy(const generic_law *from, generic_law *out);
void generic_law_free(generic_law *law);
double generic_law_curve(const generic_law *law, double x);           /* x >= 0 */
double generic_law_epsilon(const generic_law *law, double log_delta); /* the least x >= 0; INFINITY: none */

/* ---- account/generic/generic.c ---- */

typedef enum generic_kind { GENERIC_APPROXIMATE = 0, GENERIC_LAPLACE, GENERIC_LOSSES } generic_kind;

typedef struct generic_mechanism {
    generic_kind kind;
    double epsilon, delta; /* approximate; Laplace: epsilon = 1/scale */
    generic_law laws[2];   /* losses: of (P, Q) and of (Q, P); owned */
    double probability;    /* of the sampling before it; 1: none */
    int fixed;             /* batches of a fixed size under replace-one, else Poisson */
    int64_t times;
} generic_mechanism;

enum { GENERIC_EPSILON_MAX = 500 };

/* "pure:EPS", "approximate:EPS,DELTA", "laplace:SCALE", "pld:FILE", with "@poisson:Q" or "@fixed:M,N"; times is left at 1. */
DPMF_MUST_CHECK dpmf_status generic_parse(const char *text, dpmf_adjacency adjacency, generic_mechanism *out);
DPMF_MUST_CHECK dpmf_status generic_copy(const generic_mechanism *from, generic_mechanism *out);
void generic_free(generic_mechanism *m);
int generic_compare(const generic_mechanism *a, const generic_mechanism *b); /* all but times */

/* h(1 + less_one) from above, of (P, Q) or, reversed, (Q, P). */
double generic_curve(const generic_mechanism *m, int reversed, double less_one);
grid_part generic_part(const generic_mechanism *m); /* borrows m */
double generic_infinite(const generic_mechanism *m);
int generic_is_symmetric(const generic_mechanism *m); /* do (P, Q) and (Q, P) have the same curve? */

/* The largest finite loss, from above; an estimate of ln of its mass; the mass of infinite loss, from above. */
typedef struct generic_end {
    double loss, log_mass, infinite;
} generic_end;
/* A step of the grid at which the curve of this many uses is smooth enough. */
double generic_step(const generic_mechanism *m);
generic_end generic_end_of(int64_t count, const generic_mechanism *list);

/* ---- account/generic/exact.c: the optimal composition of (epsilon, delta) ---- */

/* *made 0: not a list of guarantees without sampling, or too many sums; `most` is the sum of all epsilon. */
DPMF_MUST_CHECK dpmf_status generic_compose(int64_t count, const generic_mechanism *list, generic_law *out,
                                            double *most, int *made);

/* ---- account/generic/file.c: privacy loss distributions in files ---- */

DPMF_MUST_CHECK dpmf_status generic_read(const char *path, dpmf_adjacency adjacency, generic_law laws[2]);
/* From bounds of the curves of (P, Q) and of (Q, P) at `count` losses i stride interval; add NULL: they are equal. */
DPMF_MUST_CHECK dpmf_status generic_write(const char *path, dpmf_adjacency adjacency, double interval, int64_t stride,
                                          int64_t count, double *remove, double *add, const dpmf_run *run);

#endif
