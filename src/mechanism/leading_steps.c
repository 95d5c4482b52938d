/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of the first steps of a run. Their noise has the scale sigma x the sensitivity of the whole C; a unit can
 * move them by at most the sensitivity of the leading block (strategy/triangular.c) under the participation cut to
 * these steps. So they are the same mechanism with a larger sigma. Under sampling the column norms take its place, and
 * there are fewer compositions.
 */
#include "mechanism/mechanism.h"

#include "account/account.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>

/* Makes the participation of the first steps alone, with the epochs that have begun. */
static dpmf_status cut_participation(const dpmf_participation *p, int64_t steps, dpmf_participation **out) {
    const int64_t separation = p->separation, b = separation < steps ? separation : steps;
    const int64_t begun = steps / b + (steps % b != 0), k = p->count;
    return dpmf_participation_create(p->kind, steps, k < begun ? k : begun, b, out);
}

static dpmf_status leading_sensitivity(const dpmf_mechanism *m, int64_t steps, const dpmf_run *run, double *out) {
    const dpmf_sensitivity *whole = &m->problem.evaluation.sensitivity;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_strategy *leading = NULL;
    dpmf_participation *cut = NULL;
    dpmf_sensitivity found = {0};
    dpmf_status status = DPMF_OK;
    how.adjacency = m->problem.adjacency;
    how.sensitivity = m->bound;
    how.of = whole->of;
    how.run = *run;
    TRY_DONE(strategy_create_leading(m->strategy, steps, &leading));
    TRY_DONE(cut_participation(m->problem.participation, steps, &cut));
    TRY_DONE(dpmf_sensitivity_compute(leading, cut, &how, &found));
    *out = fmin(found.value, whole->value); /* the leading block is never more sensitive than C */
done:
    dpmf_strategy_free(leading);
    dpmf_participation_free(cut);
    return status;
}

/* Samplings whose accounts depend on numbers only, not on C. */
static int is_composed(const dpmf_mechanism *m) {
    if (account_sampling_composes(&m->sampling)) return 1;
    return account_sampling_allocates(&m->sampling) && strategy_bands(m->strategy) == 1;
}

dpmf_status dpmf_mechanism_account_first(const dpmf_mechanism *m, int64_t steps, const dpmf_run *run, double *sigma,
                                         dpmf_account_options *out) {
    const dpmf_run defaults = dpmf_run_defaults();
    double part = 0;
    if (m == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_mechanism_account_first: the mechanism is NULL");
    if (m->sigma == 0) return base_fail(DPMF_ERROR_ARGUMENT, "the mechanism is not calibrated: it has no sigma");
    if (steps < 1 || steps > m->problem.steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the first %lld steps, accepted 1 to %lld", (long long)steps,
                         (long long)m->problem.steps);
    dpmf_account_options how = dpmf_mechanism_account(m);
    if (run == NULL) run = &defaults;
    how.run = *run;
    if (steps == m->problem.steps) {
        *sigma = m->sigma;
        *out = how;
        return DPMF_OK;
    }
    if (!dpmf_sampling_is_none(&m->sampling) && !is_composed(m))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "a part of a run under this sampling has no separate account; "
                                                 "the epsilon of the whole run holds for every part of it");
    TRY(leading_sensitivity(m, steps, run, &part));
    if (!dpmf_sampling_is_none(&m->sampling)) how.compositions = steps;
    how.strategy = NULL;
    *sigma = m->sigma * (m->problem.evaluation.sensitivity.value / part);
    *out = how;
    return DPMF_OK;
}
