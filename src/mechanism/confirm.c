/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a mechanism keep what it claims? Sensitivity and epsilon, computed from the coefficients, sigma and delta by the
 * routes that made them. A claim that is larger than what is found protects more than it promises and passes; a smaller
 * one is refused. Verification (verify/verify.c) checks everything else that a file claims.
 *
 * The answer is kept in the mechanism itself, which does not change after it is made, so that the second question about the
 * same object costs nothing. Another object, read from the same file, is computed again.
 */
#include "mechanism/mechanism.h"

#include "sensitivity/sensitivity.h"

#include <pthread.h>

/* Room for the rounding of another machine; calibration stops that close to its goal. */
static const double ROUNDING = 1e-9, CALIBRATION = 1e-6;

/* Simulations of other samples scatter: a claim is refused when it is beyond what that explains. */
static const double SIMULATION = 0.05;

/* Guards `confirmed` and `found` of every mechanism: two threads may open streams of one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

dpmf_status mechanism_confirm_sensitivity(const dpmf_mechanism *m, const dpmf_run *run) {
    const dpmf_sensitivity *claimed = &m->problem.evaluation.sensitivity;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_sensitivity found = {0};
    how.adjacency = m->problem.adjacency;
    how.sensitivity = m->bound;
    how.of = claimed->of;
    how.run = *run;
    TRY(dpmf_sensitivity_compute(m->strategy, m->problem.participation, &how, &found));
    if (found.value <= claimed->value * (1 + ROUNDING)) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "the mechanism claims the sensitivity %.12g, but it is %.12g: its noise is too small",
                     claimed->value, found.value);
}

static dpmf_status confirm_epsilon(const dpmf_mechanism *m, const dpmf_run *run, dpmf_privacy *found) {
    dpmf_account_options how = dpmf_mechanism_account(m);
    if (m->problem.epsilon == 0) return DPMF_OK;
    how.run = *run;
    TRY(dpmf_account_epsilon(m->sigma, m->problem.delta, &how, found));
    if (found->epsilon <= m->problem.epsilon * (1 + (found->confidence > 0 ? SIMULATION : CALIBRATION))) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "the mechanism claims epsilon = %.9g at delta = %g, but it is %.9g: its noise is too small",
                     m->problem.epsilon, m->problem.delta, found->epsilon);
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
