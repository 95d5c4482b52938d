/* SPDX-License-Identifier: Apache-2.0 */
/* Mechanism: a strategy, its noise multiplier, what its figures assumed; evaluated, made, described, calibrated, confirmed. */
#include "mechanism/mechanism.h"
#include "account/account.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "base/sum.h"
#include "error/error.h"
#include "optimum/optimum.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

dpmf_mechanism_options dpmf_mechanism_options_defaults(void) {
    return (dpmf_mechanism_options){.evaluate = dpmf_evaluate_options_defaults(), .made_by = ""};
}

/* ---- the evaluation: sensitivity and error put together into the losses, beside their bounds ---- */

/* Above this many steps an array of all errors, 128 MB, is not made where the sums are known without it. */
static const int64_t CLOSED_FORM_STEPS = (int64_t)1 << 24;

/* Computes the losses from the sensitivity and the errors of all steps, which go to `per_step` if that is not NULL. */
static dpmf_status put_together(const dpmf_workload *workload, const dpmf_strategy *strategy,
                                const dpmf_evaluate_options *o, dpmf_evaluation *result, double *per_step) {
    double *errors = NULL, s = result->sensitivity.value, sum = 0, largest = 0;
    int64_t n = strategy->steps;
    base_running total = {0};
    dpmf_status status = DPMF_OK;
    if (n > CLOSED_FORM_STEPS && per_step == NULL && o->weights == NULL && o->loss <= DPMF_LOSS_MAX &&
        error_sums(workload, strategy, &sum, &largest)) {
        result->total_squared_loss = s * s * sum;
        result->max_loss = s * sqrt(largest);
        return DPMF_OK;
    }
    TRY_DONE(base_alloc_doubles(n, "the errors", &errors));
    TRY_DONE(dpmf_error_compute(workload, strategy, &o->run, errors));
    for (int64_t t = 0; t < n; t++) {
        errors[t] *= s * (o->weights == NULL ? 1 : sqrt(o->weights[t]));
        base_running_add(&total, errors[t] * errors[t]);
        result->max_loss = fmax(result->max_loss, errors[t]);
    }
    result->total_squared_loss = base_running_value(&total);
    if (o->loss > DPMF_LOSS_MAX)
        TRY_DONE(problem_loss_of(&(problem_loss){o->loss, o->loss_power, o->own_loss}, n, errors, &result->loss));
    if (per_step != NULL && isfinite(result->total_squared_loss)) memcpy(per_step, errors, (size_t)n * sizeof *errors);
done:
    base_free(errors);
    return status;
}

dpmf_status mechanism_bound(const problem_facts *p, const dpmf_evaluate_options *o, dpmf_lower_bound *out) {
    const dpmf_lower_bound *known = p->bound_known == PROBLEM_BOUND_UNKNOWN ? NULL : &p->evaluation.lower_bound;
    if (p->bound_known == PROBLEM_BOUND_BOTH) {
        *out = *known;
        return DPMF_OK;
    }
    return optimum_lower_bound(p->workload, p->participation, o, EPOCHS_BOTH, known, out);
}

/* Fills in p->evaluation for the workload, participation, weights and adjacency of p; a bound that is known is kept. */
static dpmf_status evaluate(problem_facts *p, const dpmf_strategy *strategy, const dpmf_evaluate_options *how,
                            double *per_step) {
    dpmf_evaluate_options o = *how;
    dpmf_evaluation result = {0};
    const int64_t n = strategy->steps;
    o.weights = p->weights;
    o.adjacency = p->adjacency;
    if (p->workload->steps != n)
        return base_fail(DPMF_ERROR_ARGUMENT, "the workload has %lld steps, the strategy %lld: they must agree",
                         (long long)p->workload->steps, (long long)n);
    if (o.weights != NULL) TRY(optimum_check_weights(n, o.weights));
    TRY(problem_loss_check(&(problem_loss){o.loss, o.loss_power, o.own_loss}, "evaluate"));
    TRY(sensitivity_of_stream(strategy, p->participation, &o, &result.sensitivity));
    if (o.of == DPMF_SENSITIVITY_PARTICIPATION) TRY(mechanism_bound(p, &o, &result.lower_bound));
    TRY(put_together(p->workload, strategy, &o, &result, per_step));
    result.rms_loss = sqrt(result.total_squared_loss / (double)n);
    if (o.loss <= DPMF_LOSS_MAX) result.loss = o.loss == DPMF_LOSS_MAX ? result.max_loss : result.rms_loss;
    if (!isfinite(result.total_squared_loss))
        return base_fail(DPMF_ERROR_NUMERICAL, "the loss is beyond the range of a double");
    p->evaluation = result;
    return DPMF_OK;
}

dpmf_status dpmf_evaluate(const dpmf_workload *workload, const dpmf_participation *participation,
                          const dpmf_strategy *strategy, const dpmf_evaluate_options *options, dpmf_evaluation *out,
                          double *per_step) {
    const dpmf_evaluate_options o = options == NULL ? dpmf_evaluate_options_defaults() : *options;
    if (workload == NULL || strategy == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "evaluate: the workload or the strategy is NULL");
    problem_facts p = {.steps = strategy->steps,
                       .workload = workload,
                       .participation = participation,
                       .weights = o.weights,
                       .adjacency = o.adjacency};
    TRY(evaluate(&p, strategy, &o, per_step));
    *out = p.evaluation;
    return DPMF_OK;
}

/* ---- the record ---- */

static dpmf_status check_made_by(const char *text) {
    size_t length = strlen(text);
    if (length > MECHANISM_MADE_BY_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "made_by has %zu bytes, accepted up to %d", length,
                         MECHANISM_MADE_BY_MAX);
    if (!base_utf8_valid((const uint8_t *)text, length))
        return base_fail(DPMF_ERROR_ARGUMENT, "made_by is not valid UTF-8");
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return base_fail(DPMF_ERROR_ARGUMENT, "made_by: byte %zu is a control character, accepted: printable text",
                             i);
    return DPMF_OK;
}

static dpmf_status check_designed(const dpmf_design_limits *d) {
    const int64_t most = (int64_t)1 << 53; /* what the file can hold */
    if (d->dim == 0) return DPMF_OK;
    TRY(problem_loss_check(&(problem_loss){d->loss, d->loss_power, NULL}, "designed"));
    if (d->dim < 0 || d->dim > most || d->memory > (uint64_t)most || d->separation_high < 0 ||
        d->separation_high > most || (unsigned)d->loss > DPMF_LOSS_LAST ||
        (d->max_overhead != 0 && !(d->max_overhead >= 1 && isfinite(d->max_overhead))))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "designed for rows of %lld numbers, %llu bytes and an overhead of %g: accepted up to 2^53 "
                         "numbers and bytes, 0 for no limit, and an overhead of 1 and up, or 0",
                         (long long)d->dim, (unsigned long long)d->memory, d->max_overhead);
    return DPMF_OK;
}

static dpmf_status check_guarantee(const dpmf_mechanism *m) {
    if (m->sigma != 0 && !(m->sigma > 0 && isfinite(m->sigma)))
        return base_fail(DPMF_ERROR_ARGUMENT, "sigma = %g, accepted: positive and finite, or 0 for not calibrated",
                         m->sigma);
    if (m->problem.epsilon == 0 && m->problem.delta == 0) return DPMF_OK;
    if (!(m->problem.epsilon > 0 && isfinite(m->problem.epsilon)) || !(m->problem.delta > 0 && m->problem.delta < 1))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "epsilon = %g, delta = %g, accepted: epsilon positive and finite, delta above 0 and below 1, "
                         "or both 0",
                         m->problem.epsilon, m->problem.delta);
    if (m->sigma == 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "a guarantee of epsilon = %g without sigma: give both or none",
                         m->problem.epsilon);
    return DPMF_OK;
}

/* Checks what amplification needs of C, as far as this is known without computing; account_amplify checks the rest. */
static dpmf_status check_sampling(const dpmf_mechanism *m) {
    TRY(account_sampling_check(&m->sampling));
    int column = m->problem.evaluation.sensitivity.of == DPMF_SENSITIVITY_COLUMN;
    if (column == dpmf_sampling_is_none(&m->sampling))
        return base_fail(DPMF_ERROR_ARGUMENT, "mechanism: the sensitivity is of the %s, but there is %s sampling",
                         column ? "largest column" : "participation", column ? "no" : "");
    if (m->sampling.cap > 0 && m->sampling.units == 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "mechanism: a cap of %lld needs the number of units (cap:M:N)",
                         (long long)m->sampling.cap);
    const int overlaps = account_sampling_overlaps(&m->sampling);
    const int64_t accepted = overlaps ? m->problem.steps : account_sampling_bands(&m->sampling);
    if (accepted == 0 || (strategy_bands(m->strategy) <= accepted && strategy_rows(m->strategy) == m->problem.steps))
        return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "mechanism: the strategy (%s) has %lld bands, but its sampling accepts at most %lld",
                     m->strategy->family, (long long)strategy_bands(m->strategy), (long long)accepted);
}

dpmf_status mechanism_finish(dpmf_mechanism *m) {
    base_writer text = {0};
    base_tensors tensors = {0};
    TRY(check_guarantee(m));
    TRY(check_sampling(m));
    TRY(check_made_by(m->made_by));
    TRY(account_unit_check(m->unit));
    TRY(check_designed(&m->designed));
    dpmf_status status = mechanism_describe(m, &text, &tensors);
    if (status == DPMF_OK)
        status = base_safetensors_digest(text.text, &tensors, m->digest);
    else if (status == DPMF_ERROR_UNSUPPORTED)
        status = DPMF_OK; /* a user's operator: usable, not savable */
    base_writer_free(&text);
    return status;
}

dpmf_status mechanism_make(const problem_facts *p, const dpmf_strategy *strategy, const dpmf_mechanism_options *o,
                           dpmf_mechanism **out) {
    dpmf_mechanism *m = NULL;
    double size = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(1, sizeof *m, "a mechanism", (void **)&m));
    m->strategy = strategy_retain(strategy);
    m->problem = *p;
    TRY_DONE(problem_hold(&m->problem));
    m->bound = o->evaluate.sensitivity;
    m->sigma = o->sigma;
    m->sampling = o->sampling;
    m->designed = o->designed;
    TRY_DONE(base_copy_text(o->made_by == NULL ? "" : o->made_by, &m->made_by));
    if (o->unit != NULL) TRY_DONE(base_copy_text(o->unit, &m->unit));
    m->group = o->group > 1 ? o->group : 0;
    TRY_DONE(mechanism_response_of(m, &m->response, &size));
    TRY_DONE(mechanism_finish(m));
    *out = m;
    m = NULL;
done:
    dpmf_mechanism_free(m);
    return status;
}

dpmf_status dpmf_mechanism_create(const dpmf_workload *workload, const dpmf_participation *participation,
                                  const dpmf_strategy *strategy, const dpmf_mechanism_options *options,
                                  dpmf_mechanism **out) {
    dpmf_mechanism_options o = options == NULL ? dpmf_mechanism_options_defaults() : *options;
    if (workload == NULL || strategy == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "mechanism: the workload or the strategy is NULL");
    problem_facts p = {.steps = strategy->steps,
                       .workload = workload,
                       .participation = participation,
                       .weights = o.evaluate.weights,
                       .adjacency = o.evaluate.adjacency,
                       .epsilon = o.epsilon,
                       .delta = o.delta};
    o.evaluate.of = dpmf_sampling_is_none(&o.sampling) ? DPMF_SENSITIVITY_PARTICIPATION : DPMF_SENSITIVITY_COLUMN;
    TRY(evaluate(&p, strategy, &o.evaluate, NULL));
    return mechanism_make(&p, strategy, &o, out);
}

/* Shares the parts and copies the numbers; the digest is left empty for mechanism_finish. */
static dpmf_status copy_mechanism(const dpmf_mechanism *mechanism, dpmf_mechanism **out) {
    dpmf_mechanism *m = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(1, sizeof *m, "a mechanism", (void **)&m));
    *m = *mechanism;
    m->made_by = m->unit = NULL;
    m->digest[0] = '\0';
    m->confirmed = 0; /* what is claimed may change */
    m->strategy = strategy_retain(mechanism->strategy);
    TRY_DONE(problem_hold(&m->problem));
    TRY_DONE(base_copy_text(mechanism->made_by, &m->made_by));
    if (mechanism->unit != NULL) TRY_DONE(base_copy_text(mechanism->unit, &m->unit));
    *out = m;
    m = NULL;
done:
    dpmf_mechanism_free(m);
    return status;
}

void dpmf_mechanism_free(dpmf_mechanism *m) {
    if (m == NULL) return;
    problem_release(&m->problem);
    dpmf_strategy_free(m->strategy);
    base_free(m->made_by);
    base_free(m->unit);
    base_free(m);
}

/* Without sampling the run is one release for any C; sigma is then per sensitivity under the adjacency. */
dpmf_account_options dpmf_mechanism_account_options(const dpmf_mechanism *m) {
    dpmf_account_options o = dpmf_account_options_defaults();
    o.adjacency = m->problem.adjacency;
    o.sampling = m->sampling;
    if (!dpmf_sampling_is_none(&m->sampling))
        o.strategy = m->strategy;
    else if (m->problem.adjacency == DPMF_ADJACENCY_REPLACE_ONE)
        o.sigma_unit = 2;
    o.group = m->group;
    o.covered.unit = m->unit;
    o.covered.family = m->strategy->family;
    o.covered.digest = m->digest;
    o.covered.participation = dpmf_participation_get(m->problem.participation);
    o.covered.sensitivity = m->problem.evaluation.sensitivity;
    o.covered.correlated = strategy_bands(m->strategy) > 1 || strategy_rows(m->strategy) > m->problem.steps;
    return o;
}

dpmf_mechanism_info dpmf_mechanism_get(const dpmf_mechanism *m) {
    return (dpmf_mechanism_info){.workload = m->problem.workload,
                                 .participation = m->problem.participation,
                                 .strategy = m->strategy,
                                 .weights = m->problem.weights,
                                 .evaluation = m->problem.evaluation,
                                 .adjacency = m->problem.adjacency,
                                 .sensitivity_bound = m->bound,
                                 .sampling = m->sampling,
                                 .sigma = m->sigma,
                                 .epsilon = m->problem.epsilon,
                                 .delta = m->problem.delta,
                                 .made_by = m->made_by,
                                 .unit = m->unit,
                                 .digest = m->digest,
                                 .designed = m->designed,
                                 .response = m->response,
                                 .group = m->group};
}

dpmf_status mechanism_check_columns(const dpmf_mechanism *m, int64_t dim) {
    if (m->problem.evaluation.sensitivity.columns == 0 || dim == 1) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "dim = %lld: the sensitivity of this mechanism holds for one column alone, and vectors can "
                     "move the answers further; accepted 1, or a mechanism evaluated without columns = 1",
                     (long long)dim);
}

/* ---- the description ---- */

/* Canonical JSON with shortest digits, and raw arrays: the same exactly for equal mechanisms. The digest is its SHA-256. */
static void describe_known(base_writer *w, const char *key, double value) {
    if (value != 0)
        base_json_double(w, key, value);
    else
        base_json_null(w, key);
}

/* Writes the members that are given and not computed, steps to delta, into an open object, and adds all arrays. */
static dpmf_status describe_inputs(const dpmf_mechanism *m, base_writer *w, base_tensors *tensors) {
    char sampling[64];
    TRY(dpmf_sampling_format(&m->sampling, sampling));
    base_json_integer(w, "steps", m->problem.steps);
    base_json_open(w, "workload", '{');
    workload_write(m->problem.workload, "workload", w, tensors);
    base_json_close(w, '}');
    base_json_text(w, "participation", m->problem.participation->text);
    workload_participation_write(m->problem.participation, tensors);
    base_json_open(w, "strategy", '{');
    strategy_write(m->strategy, w, tensors);
    base_json_close(w, '}');
    base_json_text(w, "adjacency", dpmf_adjacency_name(m->problem.adjacency));
    base_json_text(w, "sampling", sampling);
    if (m->unit != NULL) base_json_text(w, "unit", m->unit); /* files that record none stay as they were */
    if (m->group > 1) base_json_integer(w, "group", m->group);
    describe_known(w, "sigma", m->sigma);
    describe_known(w, "epsilon", m->problem.epsilon);
    describe_known(w, "delta", m->problem.delta);
    if (m->problem.weights != NULL) base_tensors_add(tensors, "weights", m->problem.steps, 0, m->problem.weights);
    return w->status;
}

dpmf_status mechanism_describe(const dpmf_mechanism *m, base_writer *w, base_tensors *tensors) {
    const dpmf_evaluation *e = &m->problem.evaluation;
    base_json_open(w, NULL, '{');
    base_json_text(w, "format", "dpmf mechanism");
    base_json_integer(w, "format_version", 2);
    TRY(describe_inputs(m, w, tensors));
    base_json_open(w, "sensitivity", '{');
    base_json_double(w, "value", e->sensitivity.value);
    base_json_text(w, "kind", dpmf_certainty_name(e->sensitivity.kind));
    base_json_text(w, "of", e->sensitivity.of == DPMF_SENSITIVITY_COLUMN ? "column" : "participation");
    base_json_text(w, "bound", dpmf_sensitivity_bound_name(m->bound));
    base_json_text(w, "method", e->sensitivity.method);
    if (e->sensitivity.columns != 0)
        base_json_integer(w, "columns", e->sensitivity.columns); /* else of any dimension */
    base_json_close(w, '}');
    base_json_bool(w, "weighted", m->problem.weights != NULL);
    base_json_double(w, "rms_loss", e->rms_loss);
    base_json_double(w, "max_loss", e->max_loss);
    base_json_double(w, "total_squared_loss", e->total_squared_loss);
    if (e->lower_bound.scope == NULL) {
        base_json_null(w, "lower_bound");
    } else {
        base_json_open(w, "lower_bound", '{');
        base_json_double(w, "rms_loss", e->lower_bound.rms_loss);
        base_json_double(w, "max_loss", e->lower_bound.max_loss);
        base_json_text(w, "scope", e->lower_bound.scope);
        base_json_close(w, '}');
    }
    describe_known(w, "response", m->response);
    base_json_text(w, "made_by", m->made_by);
    char loss[PROBLEM_LOSS_TEXT];
    if (m->designed.dim != 0) { /* files of mechanisms that no design chose stay as they were */
        base_json_open(w, "designed", '{');
        base_json_integer(w, "dim", m->designed.dim);
        base_json_integer(w, "memory", (int64_t)m->designed.memory);
        base_json_double(w, "max_overhead", m->designed.max_overhead);
        problem_loss_text(&(problem_loss){m->designed.loss, m->designed.loss_power, NULL}, loss);
        base_json_text(w, "loss", loss);
        base_json_integer(w, "separation_high", m->designed.separation_high);
        base_json_close(w, '}');
    }
    base_json_close(w, '}');
    return w->status;
}

/*
 * The response of a mechanism: one number that depends on every coefficient of workload, weights and strategy,
 *
 *     r = u' P A W v,    u and v in [-1, 1), P the square roots of the weights on the diagonal,
 *
 * with u[t] and v[i] the values at 2t and 2i + 1 of the 64-bit mixing function of Steele, Lea and Flood 2014, started at
 * a salt. A change d of one coefficient C[i,j] moves r by (u' P A W)_i d (W v)_j, about d itself, where a loss, which adds
 * up squares over all steps, may move by d^2 or d/n. Independent numbers make |r| about |P A W v|, which is what its
 * rounding is measured by.
 *
 * The salt is a digest of all that is given: workload, participation, strategy, adjacency, sampling, unit, sigma, epsilon,
 * delta and weights, to the last bit. There are changes of these that no figure shows: a separation wider than the
 * bands of C, a coefficient that is multiplied by zeros, the last digits of one that hardly matters. Other inputs have
 * other u and v and so another response, which shows when it is computed again.
 */
double mechanism_response_number(uint64_t salt, uint64_t index) {
    uint64_t state = salt + index * BASE_SPLITMIX_STEP;
    return base_scatter(&state);
}

dpmf_status mechanism_response_salt(const dpmf_mechanism *m, uint64_t *out) {
    base_writer text = {0};
    base_tensors tensors = {0};
    char digest[65] = "";
    dpmf_status status = DPMF_OK;
    base_json_open(&text, NULL, '{');
    TRY_DONE(describe_inputs(m, &text, &tensors));
    base_json_close(&text, '}');
    TRY_DONE(text.status);
    TRY_DONE(base_safetensors_digest(text.text, &tensors, digest));
    digest[16] = '\0'; /* 64 bits of it */
    *out = strtoull(digest, NULL, 16);
done:
    base_writer_free(&text);
    return status;
}

static dpmf_status compute_response(const dpmf_mechanism *m, uint64_t salt, double *v, double *x, double *response,
                                    double *size) {
    int64_t n = m->problem.steps, rows = strategy_rows(m->strategy);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < rows; i++)
        v[i] = mechanism_response_number(salt, 2 * (uint64_t)i + 1);
    TRY(dpmf_strategy_solve(m->strategy, v, x));
    TRY(workload_apply_mixed(m->problem.workload, x));
    for (int64_t t = 0; t < n; t++) {
        double answer = m->problem.weights == NULL ? x[t] : sqrt(m->problem.weights[t]) * x[t];
        sum += mechanism_response_number(salt, 2 * (uint64_t)t) * answer;
        squares += answer * answer;
    }
    if (!isfinite(squares)) return base_fail(DPMF_ERROR_NUMERICAL, "the response of the mechanism is not finite");
    *response = sum;
    *size = sqrt(squares);
    return DPMF_OK;
}

dpmf_status mechanism_response_of(const dpmf_mechanism *m, double *response, double *size) {
    double *v = NULL, *x = NULL;
    uint64_t salt = 0;
    dpmf_status status = DPMF_OK;
    *response = *size = 0;
    if (m->problem.steps > MECHANISM_RESPONSE_STEPS_MAX) return DPMF_OK;
    status = mechanism_response_salt(m, &salt);
    if (status != DPMF_OK) return status == DPMF_ERROR_UNSUPPORTED ? DPMF_OK : status; /* a user's operator */
    TRY_DONE(base_alloc_doubles(strategy_rows(m->strategy), "the seeds of a response", &v));
    TRY_DONE(base_alloc_doubles(m->problem.steps, "a response", &x));
    status = compute_response(m, salt, v, x, response, size);
done:
    base_free(v);
    base_free(x);
    return status;
}

dpmf_status mechanism_confirm_sensitivity(const dpmf_mechanism *m, const dpmf_run *run) {
    const dpmf_sensitivity *claimed = &m->problem.evaluation.sensitivity;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_sensitivity found = {0};
    const double rounding = 1e-9; /* room for another machine */
    how.adjacency = m->problem.adjacency;
    how.sensitivity = m->bound;
    how.of = claimed->of;
    how.columns = claimed->columns;
    how.run = *run;
    TRY(dpmf_sensitivity_compute(m->strategy, m->problem.participation, &how, &found));
    if (found.value <= claimed->value * (1 + rounding)) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "the mechanism claims the sensitivity %.12g, but it is %.12g: its noise is too small",
                     claimed->value, found.value);
}

/*
 * The same workload, participation and strategy at another sigma. Where the sampling counts otherwise (column norms instead of
 * the participation, or back) the figures are evaluated again; else the sensitivity, on which the guarantee rests, is.
 */
static dpmf_status make_copy(const dpmf_mechanism *m, const dpmf_sampling *sampling, const dpmf_run *run,
                             dpmf_mechanism **out) {
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    o.evaluate.adjacency = m->problem.adjacency;
    o.evaluate.sensitivity = m->bound;
    o.evaluate.columns = m->problem.evaluation.sensitivity.columns;
    o.evaluate.weights = m->problem.weights;
    o.evaluate.run = *run;
    o.sampling = *sampling;
    o.made_by = m->made_by;
    o.unit = m->unit;
    o.group = m->group;
    o.designed = m->designed;
    return dpmf_mechanism_create(m->problem.workload, m->problem.participation, m->strategy, &o, out);
}

dpmf_status dpmf_mechanism_calibrate(const dpmf_mechanism *mechanism, double epsilon, double delta,
                                     const dpmf_sampling *sampling, const char *unit, const dpmf_run *run,
                                     dpmf_mechanism **out, dpmf_privacy *found) {
    const dpmf_run defaults = dpmf_run_defaults();
    dpmf_mechanism *m = NULL;
    dpmf_privacy privacy = {0};
    double size = 0;
    dpmf_status status = DPMF_OK;
    if (mechanism == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_mechanism_calibrate: the mechanism or the output is NULL");
    if (!(epsilon > 0)) return base_fail(DPMF_ERROR_ARGUMENT, "epsilon %g, accepted: above 0", epsilon);
    TRY(account_unit_check(unit));
    if (unit != NULL && mechanism->unit != NULL && strcmp(unit, mechanism->unit) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "unit '%s': the mechanism protects one %s, and records that", unit,
                         mechanism->unit);
    if (run == NULL) run = &defaults;
    if (sampling == NULL) sampling = &mechanism->sampling;
    if (dpmf_sampling_is_none(sampling) == dpmf_sampling_is_none(&mechanism->sampling)) {
        TRY(mechanism_confirm_sensitivity(mechanism, run));
        TRY(copy_mechanism(mechanism, &m));
        m->sampling = *sampling;
    } else {
        TRY(make_copy(mechanism, sampling, run, &m));
    }
    if (unit != NULL && m->unit == NULL) TRY_DONE(base_copy_text(unit, &m->unit));
    dpmf_account_options how = dpmf_mechanism_account_options(m);
    how.run = *run;
    TRY_DONE(dpmf_calibrate_sigma(epsilon, delta, &how, &privacy));
    m->problem.epsilon = epsilon;
    m->problem.delta = delta;
    m->sigma = privacy.sigma;
    TRY_DONE(mechanism_response_of(m, &m->response, &size)); /* it depends on all that is given, sigma too */
    TRY_DONE(mechanism_finish(m));
    *out = m;
    if (found != NULL) *found = privacy;
    return DPMF_OK;
done:
    dpmf_mechanism_free(m);
    return status;
}
