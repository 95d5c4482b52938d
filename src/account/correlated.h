/* SPDX-License-Identifier: Apache-2.0 */
/* Balls in bins with correlated noise, without simulation: certified upper bounds from the Gram matrix of the bins. */
#ifndef DPMF_ACCOUNT_CORRELATED_H
#define DPMF_ACCOUNT_CORRELATED_H

#include "account/account.h"
#include "account/montecarlo/montecarlo.h"

/* A scheme of kind bins, entries of the Gram matrix not negative; both directions. The question's own run does not matter. */
DPMF_MUST_CHECK dpmf_status correlated_answer(const montecarlo_scheme *scheme, const account_question *q,
                                              account_answer *out);
/*
 * A sigma (in the scheme's own unit) that is enough for e^log_delta at the epsilon that q gives, near the least; the
 * scheme's own does not matter.
 */
DPMF_MUST_CHECK dpmf_status correlated_sigma(const montecarlo_scheme *scheme, const account_question *q,
                                             double log_delta, double *sigma);

#endif
