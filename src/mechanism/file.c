/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mechanism file; the account of the first steps; a mechanism in a ledger.
 *
 * The file is the description of a mechanism in a safetensors container (base/safetensors.h).
 *
 * The reader trusts nothing: the container is checked first (sizes, offsets, duplicate keys, canonical form, digest),
 * then every object is built by the constructors that users call, with their checks, and at last the description of
 * what was built must be the text that was read. A file that loads is therefore one that this library would write, and
 * saving it again gives the same bytes. The figures it claims are not checked here: verification recomputes them.
 */
#include "base/file.h"
#include "account/account.h"
#include "base/memory.h"
#include "base/status.h"
#include "mechanism/mechanism.h"
#include "optimum/optimum.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 16 };

/* ---- writing ---- */

typedef struct image {
    uint8_t *header;
    int part_count;
    base_part parts[1 + BASE_TENSORS_MAX];
} image;

/* The parts of the file, the arrays borrowed from the mechanism. */
static dpmf_status make_image(const dpmf_mechanism *m, image *out) {
    base_writer text = {0};
    base_tensors tensors = {0};
    size_t header_size = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(mechanism_describe(m, &text, &tensors));
    TRY_DONE(base_safetensors_header(text.text, m->digest, &tensors, &out->header, &header_size));
    out->parts[0] = (base_part){out->header, header_size};
    out->part_count = 1;
    for (const base_tensor *t = tensors.tensor; t < tensors.tensor + tensors.count; t++) {
        const int64_t count = t->shape[0] * (t->dimensions == 2 ? t->shape[1] : 1);
        out->parts[out->part_count++] = (base_part){t->values, (size_t)count * sizeof(double)};
    }
done:
    base_writer_free(&text);
    return status;
}

dpmf_status dpmf_mechanism_save(const dpmf_mechanism *mechanism, const char *path) {
    image file = {0};
    if (path == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "mechanism: the path is NULL");
    TRY(make_image(mechanism, &file));
    dpmf_status status = base_file_write(path, "mechanism file", file.part_count, file.parts);
    base_free(file.header);
    return status;
}

dpmf_status dpmf_mechanism_encode(const dpmf_mechanism *mechanism, uint8_t **bytes, size_t *size) {
    image file = {0};
    uint8_t *all = NULL;
    size_t total = 0, at = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(make_image(mechanism, &file));
    for (int i = 0; i < file.part_count; i++)
        total += file.parts[i].size;
    TRY_DONE(base_alloc((int64_t)total, 1, "the mechanism's bytes", (void **)&all));
    for (int i = 0; i < file.part_count; at += file.parts[i++].size)
        memcpy(all + at, file.parts[i].bytes, file.parts[i].size);
    *bytes = all;
    *size = total;
done:
    base_free(file.header);
    return status;
}

/* ---- reading ---- */

static dpmf_status positive(const cJSON *object, const char *key, double *out) {
    double value = 0;
    TRY(base_json_get_double(object, key, "mechanism", &value));
    if (!(value > 0 && isfinite(value)))
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: %s = %g, accepted: positive and finite", key, value);
    *out = value;
    return DPMF_OK;
}

static int is_null(const cJSON *object, const char *key) {
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, key));
}

static dpmf_status positive_or_null(const cJSON *object, const char *key, double *out) {
    return is_null(object, key) ? DPMF_OK : positive(object, key, out);
}

static dpmf_status read_sensitivity(const cJSON *root, dpmf_sensitivity_bound *bound, dpmf_sensitivity *out) {
    const cJSON *object = NULL;
    const char *kind = NULL, *of = NULL, *asked = NULL, *method = NULL;
    TRY(base_json_get_object(root, "sensitivity", "mechanism", &object));
    TRY(positive(object, "value", &out->value));
    TRY(base_json_get_text(object, "kind", "sensitivity", &kind));
    TRY(base_json_get_text(object, "of", "sensitivity", &of));
    TRY(base_json_get_text(object, "bound", "sensitivity", &asked));
    TRY(dpmf_sensitivity_bound_parse(asked, bound));
    TRY(base_json_get_text(object, "method", "sensitivity", &method));
    for (out->kind = 0; strcmp(kind, dpmf_certainty_name(out->kind)) != 0; out->kind++)
        if (out->kind == DPMF_ESTIMATE)
            return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the kind of sensitivity is not known");
    out->of = strcmp(of, "column") == 0 ? DPMF_SENSITIVITY_COLUMN : DPMF_SENSITIVITY_PARTICIPATION;
    out->method = sensitivity_method(method);
    if (out->method == NULL)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the method of the sensitivity is not known");
    if (cJSON_GetObjectItemCaseSensitive(object, "columns") == NULL) return DPMF_OK; /* for any dimension */
    return base_json_get_integer(object, "columns", "sensitivity", 1, 1, &out->columns);
}

static dpmf_status read_lower_bound(const cJSON *root, dpmf_lower_bound *out) {
    const cJSON *object = NULL;
    const char *scope = NULL;
    if (is_null(root, "lower_bound")) return DPMF_OK;
    TRY(base_json_get_object(root, "lower_bound", "mechanism", &object));
    TRY(positive(object, "rms_loss", &out->rms_loss));
    TRY(positive(object, "max_loss", &out->max_loss));
    TRY(base_json_get_text(object, "scope", "lower_bound", &scope));
    out->scope = optimum_lower_bound_scope(scope);
    if (out->scope == NULL)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the scope of the lower bound is not known");
    return DPMF_OK;
}

static dpmf_status read_weights(const cJSON *root, const base_tensors *tensors, dpmf_mechanism *m) {
    if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(root, "weighted"))) return DPMF_OK;
    const base_tensor *t = base_tensors_find(tensors, "weights");
    if (t == NULL || t->dimensions != 1 || t->shape[0] != m->problem.steps)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the weights are missing or do not fit the steps");
    double *weights = NULL;
    TRY(base_alloc_doubles(m->problem.steps, "the weights", &weights));
    memcpy(weights, t->values, (size_t)m->problem.steps * sizeof *weights);
    m->problem.weights = weights;
    return DPMF_OK;
}

/* Its values are checked with the rest (mechanism_finish). */
static dpmf_status read_designed(const cJSON *root, dpmf_design_limits *out) {
    const int64_t most = (int64_t)1 << 53;
    const cJSON *object = NULL;
    const char *loss = NULL;
    int64_t memory = 0;
    if (cJSON_GetObjectItemCaseSensitive(root, "designed") == NULL) return DPMF_OK;
    TRY(base_json_get_object(root, "designed", "mechanism", &object));
    TRY(base_json_get_integer(object, "dim", "designed", 1, most, &out->dim));
    TRY(base_json_get_integer(object, "memory", "designed", 0, most, &memory));
    TRY(base_json_get_double(object, "max_overhead", "designed", &out->max_overhead));
    TRY(base_json_get_text(object, "loss", "designed", &loss));
    TRY(base_json_get_integer(object, "separation_high", "designed", 0, most, &out->separation_high));
    out->memory = (uint64_t)memory;
    problem_loss found = {DPMF_LOSS_RMS, 0, NULL};
    TRY(problem_loss_read(loss, &found));
    out->loss = found.kind;
    out->loss_power = found.power;
    return DPMF_OK;
}

static dpmf_status read_figures(const cJSON *root, dpmf_mechanism *m) {
    const char *adjacency = NULL, *sampling = NULL, *unit = NULL, *made_by = NULL;
    TRY(base_json_get_text(root, "adjacency", "mechanism", &adjacency));
    TRY(dpmf_adjacency_parse(adjacency, &m->problem.adjacency));
    TRY(base_json_get_text(root, "sampling", "mechanism", &sampling));
    TRY(dpmf_sampling_parse(sampling, &m->sampling));
    if (cJSON_GetObjectItemCaseSensitive(root, "unit") != NULL) {
        TRY(base_json_get_text(root, "unit", "mechanism", &unit));
        TRY(base_copy_text(unit, &m->unit));
    }
    if (cJSON_GetObjectItemCaseSensitive(root, "group") != NULL) {
        TRY(base_json_get_integer(root, "group", "mechanism", 2, 1000000000, &m->group));
    }
    TRY(positive_or_null(root, "sigma", &m->sigma));
    TRY(positive_or_null(root, "epsilon", &m->problem.epsilon));
    TRY(positive_or_null(root, "delta", &m->problem.delta));
    if (!is_null(root, "response")) TRY(base_json_get_double(root, "response", "mechanism", &m->response));
    TRY(read_sensitivity(root, &m->bound, &m->problem.evaluation.sensitivity));
    TRY(positive(root, "rms_loss", &m->problem.evaluation.rms_loss));
    TRY(positive(root, "max_loss", &m->problem.evaluation.max_loss));
    TRY(positive(root, "total_squared_loss", &m->problem.evaluation.total_squared_loss));
    TRY(read_lower_bound(root, &m->problem.evaluation.lower_bound));
    TRY(read_designed(root, &m->designed));
    TRY(base_json_get_text(root, "made_by", "mechanism", &made_by));
    return base_copy_text(made_by, &m->made_by);
}

static dpmf_status read_objects(const cJSON *root, const base_tensors *tensors, dpmf_mechanism *m) {
    const cJSON *object = NULL;
    const char *text = NULL;
    dpmf_workload *workload = NULL;
    dpmf_participation *participation = NULL;
    TRY(base_json_get_integer(root, "steps", "mechanism", 1, (int64_t)1 << 53, &m->problem.steps));
    TRY(base_json_get_object(root, "workload", "mechanism", &object));
    TRY(workload_read(object, m->problem.steps, "workload", tensors, &workload));
    m->problem.workload = workload;
    TRY(base_json_get_text(root, "participation", "mechanism", &text));
    TRY(workload_participation_read(text, m->problem.steps, tensors, &participation));
    m->problem.participation = participation;
    TRY(base_json_get_object(root, "strategy", "mechanism", &object));
    return strategy_read(object, m->problem.steps, workload, tensors, &m->strategy);
}

static dpmf_status decode(const uint8_t *bytes, size_t size, dpmf_mechanism **out) {
    dpmf_mechanism *m = NULL;
    base_tensors tensors = {0}, described = {0};
    base_writer again = {0};
    char *text = NULL, digest[65] = "";
    cJSON *root = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_safetensors_read(bytes, size, &text, digest, &tensors));
    TRY_DONE(base_json_parse(text, strlen(text), DEPTH_MAX, "mechanism file", &root));
    TRY_DONE(base_alloc(1, sizeof *m, "a mechanism", (void **)&m));
    TRY_DONE(read_objects(root, &tensors, m));
    TRY_DONE(read_weights(root, &tensors, m));
    TRY_DONE(read_figures(root, m));
    TRY_DONE(mechanism_finish(m));
    TRY_DONE(mechanism_describe(m, &again, &described));
    if (strcmp(again.text, text) != 0 || strcmp(m->digest, digest) != 0)
        TRY_DONE(base_fail(DPMF_ERROR_FORMAT,
                           "mechanism file: its description is not in the form that this version writes"));
    *out = m;
    m = NULL;
done:
    dpmf_mechanism_free(m);
    base_writer_free(&again);
    cJSON_Delete(root);
    base_free(text);
    if (status != DPMF_ERROR_ARGUMENT && status != DPMF_ERROR_UNSUPPORTED) return status;
    /* What a constructor refuses as an argument is here the fault of the file. */
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: %s", dpmf_last_error());
}

dpmf_status dpmf_mechanism_decode(const uint8_t *bytes, size_t size, dpmf_mechanism **out) {
    uint8_t *copy = NULL;
    if (bytes == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "mechanism: the bytes are NULL");
    if ((uintptr_t)bytes % sizeof(double) == 0) return decode(bytes, size, out);
    TRY(base_alloc((int64_t)size, 1, "a copy of the bytes", (void **)&copy));
    memcpy(copy, bytes, size);
    dpmf_status status = decode(copy, size, out);
    base_free(copy);
    return status;
}

dpmf_status dpmf_mechanism_load(const char *path, dpmf_mechanism **out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (path == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "mechanism: the path is NULL");
    TRY(base_file_read(path, "mechanism file", &bytes, &size));
    dpmf_status status = decode(bytes, size, out);
    base_free(bytes);
    if (status == DPMF_OK) return status;
    char shown[64];
    const size_t length = strlen(path), from = length > 60 ? length - 60 : 0; /* the end of a path tells files apart */
    return base_fail(status, "'%s': %s", base_show(path + from, length - from, shown), dpmf_last_error());
}

/*
 * The noise of the first steps has sigma x the sensitivity of the whole C, and a unit moves them by at most that of the leading
 * block (strategy/triangular.c): a larger sigma. Under sampling the column norms take its place, and fewer steps are composed.
 */
static dpmf_status leading_sensitivity(const dpmf_mechanism *m, int64_t steps, const dpmf_run *run,
                                       dpmf_sensitivity *out) {
    const dpmf_sensitivity *whole = &m->problem.evaluation.sensitivity;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_strategy *leading = NULL;
    dpmf_participation *cut = NULL;
    dpmf_sensitivity found = {0};
    dpmf_status status = DPMF_OK;
    how.adjacency = m->problem.adjacency;
    how.sensitivity = m->bound;
    how.of = whole->of;
    how.columns = whole->columns;
    how.run = *run;
    TRY_DONE(strategy_create_leading(m->strategy, steps, &leading));
    /* Makes the participation of the first steps alone, with the epochs that have begun. */
    const int64_t separation = m->problem.participation->separation, b = separation < steps ? separation : steps;
    const int64_t begun = steps / b + (steps % b != 0), k = m->problem.participation->count;
    if (m->problem.participation->patterns > 0)
        TRY_DONE(workload_patterns_head(m->problem.participation, steps, &cut));
    else
        TRY_DONE(dpmf_participation_create(m->problem.participation->kind, steps, k < begun ? k : begun, b, &cut));
    TRY_DONE(dpmf_sensitivity_compute(leading, cut, &how, &found));
    *out = found.value < whole->value ? found : *whole; /* the leading block is never more sensitive than C */
done:
    dpmf_strategy_free(leading);
    dpmf_participation_free(cut);
    return status;
}

dpmf_status dpmf_mechanism_account_first(const dpmf_mechanism *m, int64_t steps, const dpmf_run *run, double *sigma,
                                         dpmf_account_options *out) {
    const dpmf_run defaults = dpmf_run_defaults();
    dpmf_sensitivity part = {0};
    if (m == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_mechanism_account_first: the mechanism is NULL");
    if (m->sigma == 0) return base_fail(DPMF_ERROR_ARGUMENT, "the mechanism is not calibrated: it has no sigma");
    if (steps < 1 || steps > m->problem.steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the first %lld steps, accepted 1 to %lld", (long long)steps,
                         (long long)m->problem.steps);
    dpmf_account_options how = dpmf_mechanism_account_options(m);
    if (run == NULL) run = &defaults;
    how.run = *run;
    if (steps == m->problem.steps) {
        *sigma = m->sigma;
        *out = how;
        return DPMF_OK;
    }
    /* accounts that depend on numbers only, not on C */
    const int one_band = strategy_bands(m->strategy) == 1;
    const int composed =
        (account_sampling_composes(&m->sampling) && (one_band || !account_sampling_overlaps(&m->sampling))) ||
        (account_sampling_allocates(&m->sampling) && one_band);
    if (!dpmf_sampling_is_none(&m->sampling) && !composed)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "a part of a run under this sampling has no separate account; "
                                                 "the epsilon of the whole run holds for every part of it");
    TRY(leading_sensitivity(m, steps, run, &part));
    if (!dpmf_sampling_is_none(&m->sampling)) how.compositions = steps;
    how.strategy = NULL;
    *sigma = m->sigma * (m->problem.evaluation.sensitivity.value / part.value);
    how.covered.sensitivity = part;
    how.covered.first = steps;
    *out = how;
    return DPMF_OK;
}

dpmf_status dpmf_ledger_add_mechanism(dpmf_ledger *ledger, const dpmf_mechanism *mechanism, int64_t times) {
    const double sigma = mechanism->sigma;
    const dpmf_account_options how = dpmf_mechanism_account_options(mechanism);
    if (!(sigma > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "the mechanism is not calibrated: it has no sigma to account for");
    return dpmf_ledger_add_sampled(ledger, sigma, &how, times);
}
