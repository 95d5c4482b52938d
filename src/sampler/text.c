/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers from text: names, values and the ranges that are accepted. */
#include "sampler/sampler.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct sampler_form {
    const char *name, *form;
    sampler_kind kind;
    int values; /* whole numbers; 0: as for a sampling */
} sampler_form;

static const sampler_form FORMS[] = {
    {"cyclic", "cyclic:M", SAMPLER_CYCLIC, 1},
    {"shuffled", "shuffled:M", SAMPLER_SHUFFLED, 1},
    {"poisson", "poisson:Q", SAMPLER_POISSON, 0},
    {"block-cyclic", "block-cyclic:Q,B", SAMPLER_BLOCK_CYCLIC, 0},
    {"balls-in-bins", "balls-in-bins:B", SAMPLER_BINS, 0},
    {"min-sep", "min-sep:P,B", SAMPLER_SEPARATED, 0},
    {"scheduled", "scheduled:M,K,B", SAMPLER_SCHEDULED, 3},
    {"allocation", "allocation:K,T", SAMPLER_ALLOCATION, 0},
};
enum { FORM_COUNT = sizeof FORMS / sizeof FORMS[0] };

/* Min-sep samplers hold a 32-bit step for each unit and sum over the steps when they are made. */
static const int64_t SEPARATED_STEPS_MAX = (int64_t)1 << 28;

static dpmf_status refuse_sampler(const char *text, const char *why) {
    char shown[64], forms[200] = "";
    for (int i = 0, used = 0; i < FORM_COUNT && used < (int)sizeof forms; i++)
        used += snprintf(forms + used, sizeof forms - (size_t)used, "%s%s", i == 0 ? "" : ", ", FORMS[i].form);
    return base_fail(DPMF_ERROR_ARGUMENT, "sampler '%s': %s (%s)", base_show(text, strlen(text), shown), why, forms);
}

static const sampler_form *find_form(const char *text) {
    const size_t length = strcspn(text, ":");
    for (int i = 0; i < FORM_COUNT; i++)
        if (strlen(FORMS[i].name) == length && memcmp(FORMS[i].name, text, length) == 0) return &FORMS[i];
    return NULL;
}

static dpmf_status check_range(const sampler_form *form, const char *name, int64_t value, int64_t most,
                               const char *most_is) {
    if (value >= 1 && value <= most) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "sampler %s: %s = %" PRId64 ", accepted 1 to %" PRId64 " (%s)", form->form,
                     name, value, most, most_is);
}

/* ---- cyclic, shuffled, scheduled ---- */

static dpmf_status read_whole(const char *text, const sampler_form *form, int64_t value[3]) {
    const char *at = strchr(text, ':');
    for (int i = 0; i < form->values; i++) {
        if (at == NULL || *at == '\0') return refuse_sampler(text, "too few values");
        at++; /* the colon, or the comma before */
        const size_t length = strcspn(at, ",");
        if (!base_parse_integer(at, length, &value[i])) return refuse_sampler(text, "whole numbers are accepted");
        at += length;
    }
    return *at == '\0' ? DPMF_OK : refuse_sampler(text, "too many values");
}

static dpmf_status plan_ordered(const char *text, const sampler_form *form, int64_t units, int64_t steps,
                                sampler_plan *plan) {
    int64_t value[3] = {0};
    TRY(read_whole(text, form, value));
    TRY(check_range(form, "M", value[0], units, "the units"));
    plan->batch = value[0];
    if (form->kind != SAMPLER_SCHEDULED) {
        plan->separation = units / value[0] + (units % value[0] != 0);
        snprintf(plan->text, sizeof plan->text, "%s:%" PRId64, form->name, value[0]);
        return DPMF_OK;
    }
    TRY(check_range(form, "B", value[2], steps, "the steps"));
    TRY(check_range(form, "K", value[1], (steps - 1) / value[2] + 1, "what fits in the steps at this B"));
    plan->times = value[1];
    plan->separation = value[2];
    snprintf(plan->text, sizeof plan->text, "%s:%" PRId64 ",%" PRId64 ",%" PRId64, form->name, value[0], value[1],
             value[2]);
    return DPMF_OK;
}

/* ---- the secret samplings ---- */

static dpmf_status plan_sampled(const char *text, const sampler_form *form, int64_t units, int64_t steps,
                                sampler_plan *plan) {
    dpmf_sampling sampling = {0};
    TRY(dpmf_sampling_parse(text, &sampling));
    const int even = form->kind == SAMPLER_BINS || form->kind == SAMPLER_ALLOCATION;
    if (sampling.cap > 0 && sampling.units > 0 && sampling.units != units)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampler %s: the cap is for batches from %" PRId64 " units, but there are %" PRId64,
                         form->form, sampling.units, units);
    if (sampling.cap > 0) sampling.units = units;
    if (!even && !(sampling.probability > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler %s: a probability of %g, accepted above 0 and up to 1",
                         form->form, sampling.probability);
    if (form->kind != SAMPLER_POISSON) TRY(check_range(form, "B", sampling.count, steps, "the steps"));
    if (form->kind == SAMPLER_SEPARATED && steps > SEPARATED_STEPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler %s: steps = %" PRId64 ", accepted 1 to 2^28", form->form, steps);
    if (form->kind == SAMPLER_ALLOCATION && steps % sampling.count != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler %s: %" PRId64 " steps are not whole epochs of T = %" PRId64,
                         form->form, steps, sampling.count);
    plan->sampling = sampling;
    plan->times = sampling.picks;
    plan->separation = form->kind == SAMPLER_POISSON ? 1 : sampling.count;
    return dpmf_sampling_format(&sampling, plan->text);
}

dpmf_status sampler_parse(const char *text, int64_t units, int64_t steps, sampler_plan *out) {
    const int64_t most = (int64_t)1 << 53;
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the sampler's text is NULL");
    if (units < 1 || units > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler: units = %" PRId64 ", accepted 1 to 2^53", units);
    if (steps < 1 || steps > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler: steps = %" PRId64 ", accepted 1 to 2^53", steps);
    const sampler_form *form = find_form(text);
    if (form == NULL) return refuse_sampler(text, "not a sampler");
    sampler_plan plan = {.kind = form->kind};
    if (form->values > 0)
        TRY(plan_ordered(text, form, units, steps, &plan));
    else
        TRY(plan_sampled(text, form, units, steps, &plan));
    *out = plan;
    return DPMF_OK;
}
