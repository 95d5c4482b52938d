/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mechanism with its sigma: the same workload, participation and strategy, calibrated to (epsilon, delta). Under a
 * sampling that counts otherwise (the largest column norm instead of the participation, or back) the figures are evaluated
 * again; else they are carried over, with the sensitivity, on which the guarantee rests, computed first.
 */
#include "mechanism/mechanism.h"

static dpmf_status make_copy(const dpmf_mechanism *m, const dpmf_sampling *sampling, const dpmf_run *run,
                             dpmf_mechanism **out) {
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    o.evaluate.adjacency = m->problem.adjacency;
    o.evaluate.sensitivity = m->bound;
    o.evaluate.weights = m->problem.weights;
    o.evaluate.run = *run;
    o.sampling = *sampling;
    o.made_by = m->made_by;
    o.designed = m->designed;
    return dpmf_mechanism_create(m->problem.workload, m->problem.participation, m->strategy, &o, out);
}

dpmf_status dpmf_mechanism_calibrate(const dpmf_mechanism *mechanism, double epsilon, double delta,
                                     const dpmf_sampling *sampling, const dpmf_run *run, dpmf_mechanism **out,
                                     dpmf_privacy *found) {
    const dpmf_run defaults = dpmf_run_defaults();
    dpmf_mechanism *m = NULL;
    dpmf_privacy privacy = {0};
    double size = 0;
    dpmf_status status = DPMF_OK;
    if (mechanism == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_mechanism_calibrate: the mechanism or the output is NULL");
    if (!(epsilon > 0)) return base_fail(DPMF_ERROR_ARGUMENT, "epsilon %g, accepted: above 0", epsilon);
    if (run == NULL) run = &defaults;
    if (sampling == NULL) sampling = &mechanism->sampling;
    if (dpmf_sampling_is_none(sampling) == dpmf_sampling_is_none(&mechanism->sampling)) {
        TRY(mechanism_confirm_sensitivity(mechanism, run));
        TRY(mechanism_copy(mechanism, &m));
        m->sampling = *sampling;
    } else {
        TRY(make_copy(mechanism, sampling, run, &m));
    }
    dpmf_account_options how = dpmf_mechanism_account(m);
    how.run = *run;
    TRY_DONE(dpmf_calibrate_sigma(epsilon, delta, &how, &privacy));
    m->sigma = privacy.sigma;
    m->problem.epsilon = epsilon;
    m->problem.delta = delta;
    TRY_DONE(mechanism_response_of(m, &m->response, &size)); /* it depends on all that is given, sigma too */
    TRY_DONE(mechanism_finish(m));
    *out = m;
    if (found != NULL) *found = privacy;
    return DPMF_OK;
done:
    dpmf_mechanism_free(m);
    return status;
}
