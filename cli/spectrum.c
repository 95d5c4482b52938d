/* SPDX-License-Identifier: Apache-2.0 */
#include "spectrum.h"

#include "options/verbs.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int bad_spectrum(const char *path, const char *fault) {
    char shown[SHOWN];
    return fail(EXIT_UNABLE, "--spectrum %s: %s", show(path, shown), fault);
}

void spectrum_free(spectrum *s) {
    double *const all[] = {s->eigenvalues, s->mean, s->last, s->independent_mean, s->independent_last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *s = (spectrum){0};
}

static int read_members(const char *path, const cJSON *tree, spectrum *out) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(tree, "eigenvalues");
    const cJSON *rate = cJSON_GetObjectItemCaseSensitive(tree, "rate"), *item;
    char fault[200];
    if (!cJSON_IsArray(list) || !cJSON_IsNumber(rate) || cJSON_GetArraySize(tree) != 2 || list->child == NULL)
        return bad_spectrum(path, "not a JSON object with the keys eigenvalues, a list, and rate, a number");
    out->rate = rate->valuedouble;
    if (!(out->rate > 0 && isfinite(out->rate))) {
        snprintf(fault, sizeof fault, "rate %g, accepted: above 0", out->rate);
        return bad_spectrum(path, fault);
    }
    out->eigenvalues = allocate(cJSON_GetArraySize(list), sizeof *out->eigenvalues);
    if (out->eigenvalues == NULL) return fail_memory();
    cJSON_ArrayForEach(item, list) {
        const double value = cJSON_IsNumber(item) ? item->valuedouble : NAN;
        if (!(value > 0 && value * out->rate <= 1)) {
            snprintf(fault, sizeof fault,
                     "eigenvalue %" PRId64 " is %g, accepted: above 0 and up to 1/rate = %g, where steps overshoot",
                     out->count, value, 1 / out->rate);
            return bad_spectrum(path, fault);
        }
        out->eigenvalues[out->count++] = value;
    }
    return 0;
}

int spectrum_read(const char *path, spectrum *out) {
    enum { MOST = 1 << 24 };
    FILE *file = fopen(path, "r");
    char *bytes = file == NULL ? NULL : malloc(MOST + 1);
    if (file == NULL) return bad_spectrum(path, "it cannot be read");
    const size_t size = bytes == NULL ? 0 : fread(bytes, 1, MOST + 1, file);
    const bool failed = ferror(file) != 0;
    fclose(file);
    if (bytes == NULL) return fail_memory();
    int code = failed ? bad_spectrum(path, "it cannot be read") : size > MOST ? bad_spectrum(path, "above 16 MiB") : 0;
    if (code == 0) {
        cJSON *tree = cJSON_ParseWithLength(bytes, size);
        code = tree == NULL ? bad_spectrum(path, "not JSON") : read_members(path, tree, out);
        cJSON_Delete(tree);
    }
    free(bytes);
    return code;
}

/* One eigenvalue and one strategy: both figures. */
static dpmf_status contribution(const spectrum *s, int64_t i, const problem *p, const dpmf_strategy *strategy,
                                const dpmf_evaluate_options *how, double *errors, double *mean, double *last) {
    const int64_t steps = dpmf_strategy_get(strategy).steps;
    dpmf_workload *workload = NULL;
    dpmf_evaluation found;
    char text[64];
    snprintf(text, sizeof text, "decay:%.17g", s->rate * s->eigenvalues[i]);
    dpmf_status status = dpmf_workload_parse(text, steps, &workload);
    if (status == DPMF_OK) status = dpmf_evaluate(workload, p->participation, strategy, how, &found, errors);
    dpmf_workload_free(workload);
    if (status != DPMF_OK) return status;
    const double factor = 0.5 * s->rate * s->rate * s->eigenvalues[i];
    *mean = factor * found.rms_loss * found.rms_loss;
    *last = factor * errors[steps - 1] * errors[steps - 1];
    return DPMF_OK;
}

int spectrum_evaluate(const arguments *given, const problem *p, spectrum *s) {
    const int64_t steps = dpmf_workload_get(p->workload).steps;
    double **const lists[] = {&s->mean, &s->last, &s->independent_mean, &s->independent_last};
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_strategy *independent = NULL;
    double *errors = allocate(steps, sizeof *errors);
    int code = errors == NULL ? fail_memory() : 0;
    for (int i = 0; code == 0 && i < 4; i++)
        if ((*lists[i] = allocate(s->count, sizeof **lists[i])) == NULL) code = fail_memory();
    how.adjacency = p->adjacency;
    how.sensitivity = p->sensitivity;
    how.lower_bound = DPMF_LOWER_BOUND_NONE;
    how.weights = p->weights;
    how.run = run_with((int)given->count[OPTION_THREADS]);
    if (!dpmf_sampling_is_none(&p->sampling)) how.of = DPMF_SENSITIVITY_COLUMN;
    dpmf_status status = DPMF_OK;
    if (code == 0) status = dpmf_strategy_create(DPMF_FAMILY_IDENTITY, p->workload, NULL, &independent);
    for (int64_t i = 0; code == 0 && status == DPMF_OK && i < s->count; i++) {
        status = contribution(s, i, p, p->strategy, &how, errors, &s->mean[i], &s->last[i]);
        if (status == DPMF_OK)
            status = contribution(s, i, p, independent, &how, errors, &s->independent_mean[i], &s->independent_last[i]);
        if (interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
    }
    dpmf_strategy_free(independent);
    free(errors);
    return code == 0 && status != DPMF_OK ? fail_status(status, "--spectrum") : code;
}

/* ---- the answer ---- */

static double total(int64_t count, const double *values) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

static double effective_dimension(const spectrum *s) {
    double largest = 0;
    for (int64_t i = 0; i < s->count; i++)
        largest = fmax(largest, s->eigenvalues[i]);
    return total(s->count, s->eigenvalues) / largest;
}

void json_spectrum(text_buffer *t, const spectrum *s) {
    const double last = total(s->count, s->last), independent = total(s->count, s->independent_last);
    json_open(t, "spectrum", '{');
    json_double(t, "rate", s->rate);
    json_integer(t, "dimension", s->count);
    json_double(t, "effective_dimension", effective_dimension(s));
    json_double(t, "excess_loss", last);
    json_double(t, "excess_loss_mean", total(s->count, s->mean));
    json_double(t, "independent", independent);
    json_double(t, "independent_mean", total(s->count, s->independent_mean));
    json_double(t, "ratio", last / independent);
    json_doubles(t, "eigenvalues", s->count, s->eigenvalues);
    json_doubles(t, "per_eigenvalue", s->count, s->last);
    json_doubles(t, "per_eigenvalue_independent", s->count, s->independent_last);
    json_close(t, '}');
}

void table_spectrum(text_buffer *t, const spectrum *s) {
    const double last = total(s->count, s->last), independent = total(s->count, s->independent_last);
    table_integer(t, "eigenvalues", s->count);
    table_double(t, "  effective", effective_dimension(s), "dimension: sum / largest");
    table_upper(t, "excess loss", last, "after the last step, from noise of sigma 1");
    table_upper(t, "  mean", total(s->count, s->mean), "over the steps");
    table_upper(t, "  independent", independent, "independent noise of the same privacy, last step");
    table_upper(t, "  ratio", last / independent, "to independent noise");
}
