/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mechanism: a strategy, its noise multiplier, and everything that its figures assumed. The canonical description is a
 * JSON text with a fixed order of keys and the shortest digits that give each double back, beside the raw arrays; two
 * mechanisms are the same exactly when their descriptions are. The digest is SHA-256 over it (safetensors.h).
 */
#include "mechanism.h"

#include "base/memory.h"
#include "base/text.h"
#include "participation.h"
#include "strategy.h"
#include "workload.h"

#include <math.h>
#include <string.h>

dpmf_mechanism_options dpmf_mechanism_options_defaults(void) {
    return (dpmf_mechanism_options){.evaluate = dpmf_evaluate_options_defaults(), .made_by = ""};
}

static void describe_sensitivity(const dpmf_sensitivity *s, dpmf_i_writer *w) {
    dpmf_i_json_open(w, "sensitivity", '{');
    dpmf_i_json_double(w, "value", s->value);
    dpmf_i_json_text(w, "kind", dpmf_kind_name(s->kind));
    dpmf_i_json_text(w, "of", s->of == DPMF_SENSITIVITY_COLUMN ? "column" : "participation");
    dpmf_i_json_text(w, "method", s->method);
    dpmf_i_json_close(w, '}');
}

dpmf_status dpmf_i_mechanism_describe(const dpmf_mechanism *m, dpmf_i_writer *w, dpmf_i_tensors *tensors) {
    const dpmf_evaluation *e = &m->evaluation;
    dpmf_i_json_open(w, NULL, '{');
    dpmf_i_json_text(w, "format", "dpmf mechanism");
    dpmf_i_json_integer(w, "format_version", 1);
    dpmf_i_json_integer(w, "steps", m->steps);
    dpmf_i_json_open(w, "workload", '{');
    dpmf_i_workload_write(m->workload, "workload", w, tensors);
    dpmf_i_json_close(w, '}');
    dpmf_i_json_text(w, "participation", m->participation->text);
    dpmf_i_json_open(w, "strategy", '{');
    dpmf_i_strategy_write(m->strategy, w, tensors);
    dpmf_i_json_close(w, '}');
    dpmf_i_json_text(w, "adjacency", dpmf_adjacency_name(m->adjacency));
    dpmf_i_json_text(w, "sampling", "none");
    if (m->sigma > 0)
        dpmf_i_json_double(w, "sigma", m->sigma);
    else
        dpmf_i_json_null(w, "sigma");
    describe_sensitivity(&e->sensitivity, w);
    dpmf_i_json_bool(w, "weighted", m->weights != NULL);
    if (m->weights != NULL) dpmf_i_tensors_add(tensors, "weights", m->steps, 0, m->weights);
    dpmf_i_json_double(w, "rms_loss", e->rms_loss);
    dpmf_i_json_double(w, "max_loss", e->max_loss);
    dpmf_i_json_double(w, "total_squared_loss", e->total_squared_loss);
    dpmf_i_json_null(w, "lower_bound");
    dpmf_i_json_text(w, "made_by", m->made_by);
    dpmf_i_json_close(w, '}');
    return w->status;
}

static dpmf_status check_made_by(const char *text) {
    size_t length = strlen(text);
    if (length > DPMF_I_MADE_BY_MAX)
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "made_by has %zu bytes, accepted up to %d", length, DPMF_I_MADE_BY_MAX);
    if (!dpmf_i_utf8_valid((const uint8_t *)text, length))
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "made_by is not valid UTF-8");
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return dpmf_i_fail(DPMF_ERROR_ARGUMENT,
                               "made_by: byte %zu is a control character, accepted: printable text", i);
    return DPMF_OK;
}

dpmf_status dpmf_i_mechanism_finish(dpmf_mechanism *m) {
    dpmf_i_writer text = {0};
    dpmf_i_tensors tensors = {0};
    if (m->sigma != 0 && !(m->sigma > 0 && isfinite(m->sigma)))
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "sigma = %g, accepted: positive and finite, or 0 for not calibrated",
                           m->sigma);
    TRY(check_made_by(m->made_by));
    dpmf_status status = dpmf_i_mechanism_describe(m, &text, &tensors);
    if (status == DPMF_OK)
        status = dpmf_i_safetensors_digest(text.text, &tensors, m->digest);
    else if (status == DPMF_ERROR_UNSUPPORTED)
        status = DPMF_OK; /* a user's operator: usable, not savable */
    dpmf_i_writer_free(&text);
    return status;
}

dpmf_status dpmf_mechanism_create(const dpmf_workload *workload, const dpmf_participation *participation,
                                  const dpmf_strategy *strategy, const dpmf_mechanism_options *options,
                                  dpmf_mechanism **out) {
    dpmf_mechanism_options o = options == NULL ? dpmf_mechanism_options_defaults() : *options;
    dpmf_mechanism *m = NULL;
    dpmf_status status = DPMF_OK;
    if (workload == NULL || strategy == NULL)
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "mechanism: the workload or the strategy is NULL");
    TRY_DONE(dpmf_i_alloc(1, sizeof *m, "a mechanism", (void **)&m));
    m->steps = strategy->steps;
    m->workload = dpmf_i_workload_retain(workload);
    m->strategy = dpmf_i_strategy_retain(strategy);
    if (participation != NULL)
        m->participation = dpmf_i_participation_retain(participation);
    else
        TRY_DONE(dpmf_participation_create(DPMF_PARTICIPATION_SINGLE, m->steps, 0, 0, &m->participation));
    TRY_DONE(dpmf_evaluate(workload, m->participation, strategy, &o.evaluate, &m->evaluation, NULL));
    m->adjacency = o.evaluate.adjacency;
    m->sigma = o.sigma;
    if (o.evaluate.weights != NULL) {
        TRY_DONE(dpmf_i_alloc_doubles(m->steps, "the weights", &m->weights));
        memcpy(m->weights, o.evaluate.weights, (size_t)m->steps * sizeof *m->weights);
    }
    TRY_DONE(dpmf_i_copy_text(o.made_by == NULL ? "" : o.made_by, &m->made_by));
    TRY_DONE(dpmf_i_mechanism_finish(m));
    *out = m;
    m = NULL;
done:
    dpmf_mechanism_free(m);
    return status;
}

void dpmf_mechanism_free(dpmf_mechanism *m) {
    if (m == NULL) return;
    dpmf_workload_free(m->workload);
    dpmf_participation_free(m->participation);
    dpmf_strategy_free(m->strategy);
    dpmf_i_free(m->weights);
    dpmf_i_free(m->made_by);
    dpmf_i_free(m);
}

const dpmf_workload *dpmf_mechanism_workload(const dpmf_mechanism *m) {
    return m->workload;
}

const dpmf_participation *dpmf_mechanism_participation(const dpmf_mechanism *m) {
    return m->participation;
}

const dpmf_strategy *dpmf_mechanism_strategy(const dpmf_mechanism *m) {
    return m->strategy;
}

const double *dpmf_mechanism_weights(const dpmf_mechanism *m) {
    return m->weights;
}

dpmf_evaluation dpmf_mechanism_evaluation(const dpmf_mechanism *m) {
    return m->evaluation;
}

dpmf_adjacency dpmf_mechanism_adjacency(const dpmf_mechanism *m) {
    return m->adjacency;
}

double dpmf_mechanism_sigma(const dpmf_mechanism *m) {
    return m->sigma;
}

const char *dpmf_mechanism_made_by(const dpmf_mechanism *m) {
    return m->made_by;
}

const char *dpmf_mechanism_digest(const dpmf_mechanism *m) {
    return m->digest;
}
