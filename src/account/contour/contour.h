/* SPDX-License-Identifier: Apache-2.0 */
/* The contour integral: near exact values of epsilon and delta, for comparison; nothing certified rests on them. */
#ifndef DPMF_ACCOUNT_CONTOUR_H
#define DPMF_ACCOUNT_CONTOUR_H

#include "account/pair.h"
#include "account/saddle.h"

/* error: an estimate of |epsilon - its true value|, or of ln delta; INFINITY where the method fails and the value is void. */
DPMF_MUST_CHECK dpmf_status contour_answer(const account_pair *pair, const account_question *q, double *value,
                                           double *error);

/* ---- account/contour/contour.c: M at complex orders ---- */

/* ln M(z) of one step, Re z > 0, Im z >= 0, q < 1: it keeps what many z share and how fine the last quadrature had to be. */
typedef struct contour_moment {
    const account_pair *pair;
    double log_odds, spread; /* ln(q/(1-q)); S of account/pair.c */
    double fineness;
    int64_t points; /* evaluations of the integrand so far */
} contour_moment;

void contour_moment_start(const account_pair *pair, contour_moment *out);

/* `scale`: about ln |M(z)|, against overflow. *error: of the result, INFINITY if the quadrature fails. */
double complex contour_moment_log(contour_moment *moment, double complex z, double scale, double *error);

#endif
