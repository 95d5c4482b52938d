/* SPDX-License-Identifier: Apache-2.0 */
/* The contour integral, piece by piece: its saddle, and its nodes. */
#ifndef DPMF_ACCOUNT_CONTOUR_H
#define DPMF_ACCOUNT_CONTOUR_H

#include "account/pair.h"

/* g(z) = n ln M(z) - z epsilon - ln z - ln(z+1) at its least on the real line: where, and its derivatives. */
typedef struct contour_saddle {
    double t, epsilon;
    double value, second, third; /* g, g'', g''' at t */
    double scale;                /* ln M(t) */
} contour_saddle;

/* False where no saddle can be found. cut: of account/pair.h. */
int contour_saddle_at_epsilon(const account_pair *pair, double cut, double epsilon, contour_saddle *out);
/* The saddle whose own approximation of delta is e^log_delta; its epsilon may be negative. */
int contour_saddle_at_delta(const account_pair *pair, double log_delta, contour_saddle *out);
/* Another abscissa on the same contour; value, scale follow. */
int contour_saddle_move(const account_pair *pair, double t, contour_saddle *saddle);

#endif
