/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical description of a mechanism: a JSON text with a fixed order of keys and the shortest digits that give
 * each double back, beside the raw arrays; two mechanisms are the same exactly when their descriptions are. The digest
 * is SHA-256 over it (base/safetensors.h).
 */
#include "mechanism/mechanism.h"

#include "strategy/strategy.h"
#include "workload/workload.h"

static void describe_known(base_writer *w, const char *key, double value) {
    if (value != 0)
        base_json_double(w, key, value);
    else
        base_json_null(w, key);
}

static void describe_sensitivity(const dpmf_mechanism *m, base_writer *w) {
    const dpmf_sensitivity *s = &m->problem.evaluation.sensitivity;
    base_json_open(w, "sensitivity", '{');
    base_json_double(w, "value", s->value);
    base_json_text(w, "kind", dpmf_kind_name(s->kind));
    base_json_text(w, "of", s->of == DPMF_SENSITIVITY_COLUMN ? "column" : "participation");
    base_json_text(w, "bound", dpmf_sensitivity_bound_name(m->bound));
    base_json_text(w, "method", s->method);
    base_json_close(w, '}');
}

static void describe_lower_bound(const dpmf_lower_bound *b, base_writer *w) {
    if (b->scope == NULL) {
        base_json_null(w, "lower_bound");
        return;
    }
    base_json_open(w, "lower_bound", '{');
    base_json_double(w, "rms_loss", b->rms_loss);
    base_json_double(w, "max_loss", b->max_loss);
    base_json_text(w, "scope", b->scope);
    base_json_close(w, '}');
}

/* Written only where a design chose the mechanism: files of mechanisms that were named stay as they were. */
static void describe_designed(const dpmf_design_limits *d, base_writer *w) {
    if (d->dim == 0) return;
    base_json_open(w, "designed", '{');
    base_json_integer(w, "dim", d->dim);
    base_json_integer(w, "memory", (int64_t)d->memory);
    base_json_double(w, "max_overhead", d->max_overhead);
    base_json_text(w, "loss", d->loss == DPMF_LOSS_MAX ? "max" : "rms");
    base_json_integer(w, "separation_high", d->separation_high);
    base_json_close(w, '}');
}

dpmf_status mechanism_describe_inputs(const dpmf_mechanism *m, base_writer *w, base_tensors *tensors) {
    char sampling[64];
    TRY(dpmf_sampling_format(&m->sampling, sampling));
    base_json_integer(w, "steps", m->problem.steps);
    base_json_open(w, "workload", '{');
    workload_write(m->problem.workload, "workload", w, tensors);
    base_json_close(w, '}');
    base_json_text(w, "participation", m->problem.participation->text);
    base_json_open(w, "strategy", '{');
    strategy_write(m->strategy, w, tensors);
    base_json_close(w, '}');
    base_json_text(w, "adjacency", dpmf_adjacency_name(m->problem.adjacency));
    base_json_text(w, "sampling", sampling);
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
    TRY(mechanism_describe_inputs(m, w, tensors));
    describe_sensitivity(m, w);
    base_json_bool(w, "weighted", m->problem.weights != NULL);
    base_json_double(w, "rms_loss", e->rms_loss);
    base_json_double(w, "max_loss", e->max_loss);
    base_json_double(w, "total_squared_loss", e->total_squared_loss);
    describe_lower_bound(&e->lower_bound, w);
    describe_known(w, "response", m->response);
    base_json_text(w, "made_by", m->made_by);
    describe_designed(&m->designed, w);
    base_json_close(w, '}');
    return w->status;
}
