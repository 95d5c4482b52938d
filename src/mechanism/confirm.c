/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a mechanism keep what it claims? Sensitivity and epsilon, computed from the coefficients, sigma and delta by the
 * routes that made them. A claim that is larger than what is found protects more than it says and passes; a smaller one
 * is refused. Everything else that a file claims is for verification (verify/verify.c).
 *
 * Answers are remembered by digest, which covers every coefficient and every claim, so that the second question costs
 * nothing. A mechanism without a digest (a user's operator) is computed every time.
 */
#include "mechanism/mechanism.h"

#include "sensitivity/sensitivity.h"

#include <pthread.h>
#include <string.h>

/* What another machine may round otherwise; calibration stops that close to its goal. */
static const double ROUNDING = 1e-9, CALIBRATION = 1e-6;

/* Simulations of other samples scatter: a claim is refused when it is beyond what that explains. */
static const double SIMULATION = 0.05;

/* ---- what has been found ---- */

enum { KEPT = 64 };

typedef struct answer {
    char digest[65]; /* empty: none */
    dpmf_privacy found;
} answer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static answer answers[KEPT];
static int next_answer;

static int recall(const char *digest, dpmf_privacy *found) {
    int known = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && !known && *digest != '\0'; i++)
        if (strcmp(answers[i].digest, digest) == 0) {
            *found = answers[i].found;
            known = 1;
        }
    pthread_mutex_unlock(&lock);
    return known;
}

static void remember(const char *digest, const dpmf_privacy *found) {
    if (*digest == '\0') return;
    pthread_mutex_lock(&lock);
    answer *to = &answers[next_answer++ % KEPT];
    memcpy(to->digest, digest, sizeof to->digest);
    to->found = *found;
    next_answer %= KEPT;
    pthread_mutex_unlock(&lock);
}

/* ---- what there is to find ---- */

dpmf_status mechanism_confirm_sensitivity(const dpmf_mechanism *m, const dpmf_run *run) {
    const dpmf_sensitivity *claimed = &m->evaluation.sensitivity;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_sensitivity found = {0};
    how.adjacency = m->adjacency;
    how.sensitivity = m->bound;
    how.of = claimed->of;
    how.run = *run;
    TRY(dpmf_sensitivity_compute(m->strategy, m->participation, &how, &found));
    if (found.value <= claimed->value * (1 + ROUNDING)) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "the mechanism claims the sensitivity %.12g, but it is %.12g: its noise is too small",
                     claimed->value, found.value);
}

static dpmf_status confirm_epsilon(const dpmf_mechanism *m, const dpmf_run *run, dpmf_privacy *found) {
    dpmf_account_options how = dpmf_mechanism_account(m);
    if (m->epsilon == 0) return DPMF_OK;
    how.run = *run;
    TRY(dpmf_account_epsilon(m->sigma, m->delta, &how, found));
    if (found->epsilon <= m->epsilon * (1 + (found->confidence > 0 ? SIMULATION : CALIBRATION))) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "the mechanism claims epsilon = %.9g at delta = %g, but it is %.9g: its noise is too small",
                     m->epsilon, m->delta, found->epsilon);
}

dpmf_status dpmf_mechanism_confirm(const dpmf_mechanism *mechanism, const dpmf_run *run, dpmf_privacy *out) {
    const dpmf_run defaults = dpmf_run_defaults();
    dpmf_privacy found = {0};
    if (mechanism == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_mechanism_confirm: the mechanism is NULL");
    if (!recall(mechanism->digest, &found)) {
        TRY(mechanism_confirm_sensitivity(mechanism, run != NULL ? run : &defaults));
        TRY(confirm_epsilon(mechanism, run != NULL ? run : &defaults, &found));
        remember(mechanism->digest, &found);
    }
    if (out != NULL) *out = found;
    return DPMF_OK;
}
