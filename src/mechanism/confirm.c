/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a mechanism keep what it claims? Sensitivity and epsilon, computed from the coefficients, sigma and delta by the
 * routes that made them. A claim that is larger than what is found protects more than it promises and passes; a smaller
 * one is refused. Verification (verify/verify.c) checks everything else that a file claims.
 *
 * The answer is kept in the mechanism itself, which does not change after it is made: a second question costs nothing.
 */
#include "mechanism/mechanism.h"

#include "account/account.h"
#include "base/random.h"

#include <math.h>
#include <pthread.h>

/* Room for the goal that calibration stops near. */
static const double CALIBRATION = 1e-6;

/* Guards `confirmed` and `found` of every mechanism: two threads may open streams of one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Does the account show delta at the claimed epsilon? That is the claim itself, and what calibration certifies. Epsilon at the
 * claimed delta is read from other points of the grids: a bound too, which may lie above a true claim by their slack.
 */
static dpmf_status shows_delta(const dpmf_mechanism *m, const dpmf_account_options *how, dpmf_privacy *found,
                               int *shown) {
    TRY(dpmf_account_delta(m->sigma, m->problem.epsilon, how, found));
    *shown = found->delta <= m->problem.delta;
    found->delta = m->problem.delta;
    return DPMF_OK;
}

/*
 * The randomness of the simulation is fresh: the maker of the file could have tried mechanisms until one looked good in samples
 * that are known beforehand.
 */
static dpmf_status confirm_by_samples(const dpmf_mechanism *m, dpmf_account_options how, dpmf_privacy *found,
                                      int *asked) {
    int shown = 0;
    TRY(base_random_seed(&how.seed));
    TRY(account_confirm(m->sigma, m->problem.epsilon, m->problem.delta, &how, found, asked, &shown));
    if (!*asked || shown) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "the mechanism claims epsilon = %.9g at delta = %g, but a simulation with fresh randomness does "
                     "not show it, and finds a delta of about %.4g: its noise is too small",
                     m->problem.epsilon, m->problem.delta, found->delta);
}

static dpmf_status confirm_epsilon(const dpmf_mechanism *m, const dpmf_run *run, dpmf_privacy *found) {
    const double claimed = m->problem.epsilon;
    dpmf_account_options how = dpmf_mechanism_account_options(m);
    dpmf_privacy at_claim = {0};
    int shown = 0, asked = 0;
    if (claimed == 0) return DPMF_OK;
    how.run = *run;
    TRY(confirm_by_samples(m, how, found, &asked));
    if (asked) return DPMF_OK;
    TRY(dpmf_account_epsilon(m->sigma, m->problem.delta, &how, found));
    if (found->epsilon <= claimed) return DPMF_OK;
    if (found->confidence == 0) TRY(shows_delta(m, &how, &at_claim, &shown));
    if (shown) *found = at_claim;
    if (found->epsilon <= claimed * (1 + CALIBRATION)) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "the mechanism claims epsilon = %.9g at delta = %g, but it is %.9g: its noise is too small",
                     claimed, m->problem.delta, found->epsilon);
}

dpmf_status dpmf_mechanism_confirm(const dpmf_mechanism *mechanism, const dpmf_run *run, dpmf_privacy *out) {
    const dpmf_run defaults = dpmf_run_defaults();
    dpmf_mechanism *m = (dpmf_mechanism *)mechanism; /* what is known about it is the one thing that changes */
    dpmf_privacy found = {0};
    if (mechanism == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_mechanism_confirm: the mechanism is NULL");
    pthread_mutex_lock(&lock);
    const int known = m->confirmed;
    if (known) found = m->found;
    pthread_mutex_unlock(&lock);
    if (!known) {
        TRY(mechanism_confirm_sensitivity(mechanism, run != NULL ? run : &defaults));
        TRY(confirm_epsilon(mechanism, run != NULL ? run : &defaults, &found));
        pthread_mutex_lock(&lock);
        m->found = found;
        m->confirmed = 1;
        pthread_mutex_unlock(&lock);
    }
    if (out != NULL) *out = found;
    return DPMF_OK;
}
