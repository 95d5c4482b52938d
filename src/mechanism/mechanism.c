/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mechanism: a strategy, its noise multiplier, and everything that its figures assumed; this file makes and checks it,
 * and answers the public calls about it.
 */
#include "mechanism/mechanism.h"

#include "account/account.h"
#include "base/memory.h"
#include "base/status.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

dpmf_mechanism_options dpmf_mechanism_options_defaults(void) {
    return (dpmf_mechanism_options){.evaluate = dpmf_evaluate_options_defaults(), .made_by = ""};
}

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
    if (d->dim < 0 || d->dim > most || d->memory > (uint64_t)most || d->separation_high < 0 ||
        d->separation_high > most || (unsigned)d->loss > DPMF_LOSS_MAX ||
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
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "mechanism: a cap of %lld on the batch needs the number of units (cap:M:N)",
                         (long long)m->sampling.cap);
    int64_t accepted = account_sampling_bands(&m->sampling);
    if (accepted == 0) return DPMF_OK;
    if (strategy_bands(m->strategy) <= accepted && strategy_rows(m->strategy) == m->problem.steps) return DPMF_OK;
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
    TRY_DONE(mechanism_response_of(m, &m->response, &size));
    TRY_DONE(base_copy_text(o->made_by == NULL ? "" : o->made_by, &m->made_by));
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
    TRY(mechanism_evaluate(&p, strategy, &o.evaluate, NULL));
    return mechanism_make(&p, strategy, &o, out);
}

dpmf_status mechanism_copy(const dpmf_mechanism *mechanism, dpmf_mechanism **out) {
    dpmf_mechanism *m = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(1, sizeof *m, "a mechanism", (void **)&m));
    *m = *mechanism;
    m->made_by = NULL;
    m->digest[0] = '\0';
    m->confirmed = 0; /* what is claimed may change */
    m->strategy = strategy_retain(mechanism->strategy);
    TRY_DONE(problem_hold(&m->problem));
    TRY_DONE(base_copy_text(mechanism->made_by, &m->made_by));
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
    base_free(m);
}

/* Without sampling the run is one release for any C; sigma is then per sensitivity under the adjacency. */
dpmf_account_options dpmf_mechanism_account(const dpmf_mechanism *m) {
    dpmf_account_options o = dpmf_account_options_defaults();
    o.adjacency = m->problem.adjacency;
    o.sampling = m->sampling;
    if (!dpmf_sampling_is_none(&m->sampling))
        o.strategy = m->strategy;
    else if (m->problem.adjacency == DPMF_ADJACENCY_REPLACE_ONE)
        o.sigma_unit = 2;
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
                                 .digest = m->digest,
                                 .designed = m->designed,
                                 .response = m->response};
}
