/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the figures of a mechanism once more by the routes that made them: the same code on the same coefficients,
 * so that claimed and found agree to the last digits and a change of any one of them shows. verify/matrices.c and
 * verify/stream.c check whether the routes are right.
 */
#include "verify/verify.h"

#include "base/memory.h"
#include "optimum/optimum.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static dpmf_evaluate_options options_of(const verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.adjacency = m->problem.adjacency;
    o.sensitivity = m->bound;
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    o.weights = m->problem.weights;
    o.columns = m->problem.evaluation.sensitivity.columns;
    o.of = dpmf_sampling_is_none(&m->sampling) ? DPMF_SENSITIVITY_PARTICIPATION : DPMF_SENSITIVITY_COLUMN;
    o.run = *v->run;
    return o;
}

static void check_sensitivity(verify_task *v) {
    const dpmf_sensitivity *claimed = &v->mechanism->problem.evaluation.sensitivity, *found = &v->again.sensitivity;
    const int same = claimed->kind == found->kind && claimed->of == found->of && claimed->method == found->method &&
                     claimed->columns == found->columns;
    if (same) {
        verify_check_equal(v->out, "sensitivity", claimed->value, found->value, VERIFY_TOLERANCE_SAME,
                           "computed again: %s (%s)", found->method, dpmf_certainty_name(found->kind));
        return;
    }
    const dpmf_check check = {
        .name = "sensitivity", .claimed = claimed->value, .found = found->value, .tolerance = VERIFY_TOLERANCE_SAME};
    verify_check_add(v->out, check, "claimed as %s by '%s', found as %s by '%s'", dpmf_certainty_name(claimed->kind),
                     claimed->method, dpmf_certainty_name(found->kind), found->method);
}

/* Two climbs may end apart, but on numbers of few digits: a claim between such numbers was changed. */
static void check_bound(verify_task *v, const char *name, double claimed, double found, double apart,
                        const char *claimed_scope, const char *scope) {
    const double tolerance = optimum_lower_bound_is_cut(claimed, scope) ? apart : 0;
    const int weaker = optimum_lower_bound_is_weaker(claimed, claimed_scope, found, scope);
    if (weaker && claimed < found * (1 - apart)) {
        const dpmf_check check = {.name = name, .ok = 1, .claimed = claimed, .found = found, .tolerance = apart};
        verify_check_add(v->out, check, "proven; a stronger bound is known now: %s", scope);
        return;
    }
    verify_check_equal(v->out, name, claimed, found, fmax(tolerance, VERIFY_TOLERANCE_OTHER), "computed again: %s",
                       scope);
}

static dpmf_status check_lower_bound(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    const dpmf_lower_bound *claimed = &m->problem.evaluation.lower_bound;
    dpmf_evaluate_options o = options_of(v);
    dpmf_lower_bound found = {0};
    double apart = 0;
    if (claimed->scope == NULL) {
        verify_check_skip(v->out, "lower_bound", "none is claimed");
        return DPMF_OK;
    }
    o.lower_bound = DPMF_LOWER_BOUND_FORCE;
    dpmf_status status = dpmf_sampling_is_none(&m->sampling)
                             ? optimum_lower_bound_like(m->problem.workload, m->problem.participation, &o,
                                                        claimed->scope, &found, &apart)
                             : base_fail(DPMF_ERROR_UNSUPPORTED, "no lower bound is known under sampling");
    if (status != DPMF_OK && !verify_is_verdict(status)) return status;
    const int weaker = status == DPMF_OK && found.scope != NULL &&
                       optimum_lower_bound_is_weaker(claimed->rms_loss, claimed->scope, found.rms_loss, found.scope);
    if (status != DPMF_OK || (found.scope != claimed->scope && !weaker)) {
        const dpmf_check check = {.name = "lower_bound", .claimed = claimed->rms_loss, .found = NAN};
        verify_check_add(v->out, check, "%s", status != DPMF_OK ? dpmf_last_error() : "another bound was found");
        return DPMF_OK;
    }
    check_bound(v, "lower_bound.rms_loss", claimed->rms_loss, found.rms_loss, apart, claimed->scope, found.scope);
    check_bound(v, "lower_bound.max_loss", claimed->max_loss, found.max_loss, apart, claimed->scope, found.scope);
    return DPMF_OK;
}

static dpmf_status check_response(verify_task *v) {
    double found = 0, size = 0;
    dpmf_status status = mechanism_response_of(v->mechanism, &found, &size);
    if (status != DPMF_OK && !verify_is_verdict(status)) return status;
    if (status == DPMF_OK && size == 0 && v->mechanism->response == 0) {
        verify_check_skip(v->out, "response", "not taken: too many steps, or a user's operator");
        return DPMF_OK;
    }
    v->responded = status == DPMF_OK && size > 0;
    v->response_size = size;
    verify_check_response(
        v, "response", status == DPMF_OK ? found : NAN, VERIFY_TOLERANCE_RESPONSE,
        "u' A W v, with u and v chosen by a digest of all inputs, computed again: it changes with every bit of them");
    return DPMF_OK;
}

dpmf_status verify_figures(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    const dpmf_evaluation *claimed = &m->problem.evaluation, *found = &v->again;
    const dpmf_evaluate_options o = options_of(v);
    TRY(base_progress(v->run, "verify: figures", 0));
    dpmf_status status = dpmf_evaluate(m->problem.workload, m->problem.participation, m->strategy, &o, &v->again, NULL);
    if (status != DPMF_OK && !verify_is_verdict(status)) return status;
    v->evaluated = status == DPMF_OK;
    if (!v->evaluated) {
        const dpmf_check check = {
            .name = "sensitivity", .claimed = claimed->sensitivity.value, .found = NAN, .tolerance = 0};
        verify_check_add(v->out, check, "the figures cannot be computed: %s", dpmf_last_error());
        return DPMF_OK;
    }
    check_sensitivity(v);
    verify_check_equal(v->out, "rms_loss", claimed->rms_loss, found->rms_loss, VERIFY_TOLERANCE_SAME,
                       "computed again, with the sensitivity found");
    verify_check_equal(v->out, "max_loss", claimed->max_loss, found->max_loss, VERIFY_TOLERANCE_SAME,
                       "computed again, with the sensitivity found");
    verify_check_equal(v->out, "total_squared_loss", claimed->total_squared_loss, found->total_squared_loss,
                       VERIFY_TOLERANCE_SAME, "computed again, with the sensitivity found");
    TRY(check_lower_bound(v));
    return check_response(v);
}

/*
 * ---- the list of checks ----
 *
 * Every part of the verification adds its own, and the public calls read them.
 */

static void append_check(dpmf_verification *v, dpmf_check check, const char *how, va_list values) {
    assert(v->count < VERIFY_CHECKS_MAX);
    if (vsnprintf(check.how, sizeof check.how, how, values) < 0) check.how[0] = '\0';
    v->check[v->count++] = check;
}

void verify_check_add(dpmf_verification *v, dpmf_check check, const char *how, ...) {
    va_list values;
    va_start(values, how);
    append_check(v, check, how, values);
    va_end(values);
}

void verify_check_equal(dpmf_verification *v, const char *name, double claimed, double found, double tolerance,
                        const char *how, ...) {
    const int ok = fabs(claimed - found) <= tolerance * fabs(claimed); /* false for NaN */
    va_list values;
    va_start(values, how);
    append_check(v, (dpmf_check){.name = name, .ok = ok, .claimed = claimed, .found = found, .tolerance = tolerance},
                 how, values);
    va_end(values);
}

void verify_check_response(const verify_task *v, const char *name, double found, double tolerance, const char *how) {
    const double claimed = v->mechanism->response, allowed = tolerance * v->response_size;
    const dpmf_check check = {.name = name,
                              .ok = fabs(claimed - found) <= allowed,
                              .claimed = claimed,
                              .found = found,
                              .tolerance = claimed == 0 ? allowed : allowed / fabs(claimed)};
    verify_check_add(v->out, check, "%s", how);
}

void verify_check_skip(dpmf_verification *v, const char *name, const char *why, ...) {
    va_list values;
    va_start(values, why);
    append_check(v, (dpmf_check){.name = name, .ok = -1, .claimed = NAN, .found = NAN}, why, values);
    va_end(values);
}

int verify_is_verdict(dpmf_status status) {
    return status == DPMF_ERROR_ARGUMENT || status == DPMF_ERROR_FORMAT || status == DPMF_ERROR_NUMERICAL ||
           status == DPMF_ERROR_UNSUPPORTED;
}

void dpmf_verification_free(dpmf_verification *verification) {
    base_free(verification);
}

dpmf_verification_info dpmf_verification_get(const dpmf_verification *v) {
    dpmf_verification_info info = {.ok = 1, .count = v->count};
    for (int64_t i = 0; i < v->count; i++)
        if (v->check[i].ok == 0) info.ok = 0;
    return info;
}

const dpmf_check *dpmf_verification_check(const dpmf_verification *v, int64_t i) {
    return i >= 0 && i < v->count ? &v->check[i] : NULL;
}
