/* SPDX-License-Identifier: Apache-2.0 */
/* The words of accounting: samplings and engines to and from text. */
#include "account/account.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- engines ---- */

static const char *const ENGINES[] = {
    [DPMF_ENGINE_AUTO] = "auto",
    [DPMF_ENGINE_CONTOUR] = "contour",
    [DPMF_ENGINE_CONNECT_THE_DOTS] = "connect-the-dots",
    [DPMF_ENGINE_RDP] = "rdp",
    [DPMF_ENGINE_MONTE_CARLO] = "monte-carlo",
};
enum { ENGINE_COUNT = sizeof ENGINES / sizeof ENGINES[0] };

const char *dpmf_engine_name(dpmf_engine engine) {
    return (unsigned)engine < ENGINE_COUNT ? ENGINES[engine] : "unknown";
}

dpmf_status dpmf_engine_parse(const char *text, dpmf_engine *out) {
    char shown[64];
    if (text == NULL) return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "the engine's name is NULL");
    for (int i = 0; i < ENGINE_COUNT; i++)
        if (strcmp(text, ENGINES[i]) == 0) {
            *out = (dpmf_engine)i;
            return DPMF_OK;
        }
    return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT,
                            "engine '%s', accepted: auto, contour, connect-the-dots, rdp, monte-carlo",
                            dpmf_i_base_show(text, strlen(text), shown));
}

/* ---- samplings ---- */

typedef struct sampling_form {
    const char *name;
    dpmf_sampling_kind kind;
    int has_probability, has_count;
    const char *form;
} sampling_form;

static const sampling_form FORMS[] = {
    {"none", DPMF_SAMPLING_NONE, 0, 0, "none"},
    {"poisson", DPMF_SAMPLING_POISSON, 1, 0, "poisson:Q"},
    {"block-cyclic", DPMF_SAMPLING_BLOCK_CYCLIC, 1, 1, "block-cyclic:Q,BANDS"},
    {"balls-in-bins", DPMF_SAMPLING_BALLS_IN_BINS, 0, 1, "balls-in-bins:BINS"},
    {"min-sep", DPMF_SAMPLING_MIN_SEPARATION, 1, 1, "min-sep:P,B"},
};
enum { FORM_COUNT = sizeof FORMS / sizeof FORMS[0] };

static dpmf_status refuse_sampling(const char *text, const char *why) {
    char shown[64];
    return dpmf_i_base_fail(
        DPMF_ERROR_ARGUMENT,
        "sampling '%s': %s (none, poisson:Q, block-cyclic:Q,BANDS, balls-in-bins:BINS, min-sep:P,B)",
        dpmf_i_base_show(text, strlen(text), shown), why);
}

static const sampling_form *find_form(const char *text, size_t length) {
    for (int i = 0; i < FORM_COUNT; i++)
        if (strlen(FORMS[i].name) == length && memcmp(FORMS[i].name, text, length) == 0) return &FORMS[i];
    return NULL;
}

static dpmf_status read_values(const char *text, const sampling_form *form, const char *values, dpmf_sampling *out) {
    size_t first = form->has_probability ? strcspn(values, ",") : 0;
    const char *rest = values + first;
    if (form->has_probability) {
        if (!dpmf_i_base_parse_double(values, first, &out->probability) || out->probability < 0 || out->probability > 1)
            return refuse_sampling(text, "a probability from 0 to 1 is accepted");
        if (form->has_count != (*rest == ',')) return refuse_sampling(text, "the number of values is not as in");
        if (form->has_count) rest++;
    }
    if (form->has_count && (!dpmf_i_base_parse_integer(rest, strlen(rest), &out->count) || out->count < 1))
        return refuse_sampling(text, "a whole number of at least 1 is accepted");
    return DPMF_OK;
}

dpmf_status dpmf_sampling_parse(const char *text, dpmf_sampling *out) {
    if (text == NULL) return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "the sampling's text is NULL");
    size_t name = strcspn(text, ":");
    const sampling_form *form = find_form(text, name);
    if (form == NULL) return refuse_sampling(text, "not a sampling");
    dpmf_sampling found = {.kind = form->kind};
    int wants = form->has_probability || form->has_count;
    if (wants != (text[name] == ':')) return refuse_sampling(text, wants ? "values are needed" : "takes no values");
    if (wants) TRY(read_values(text, form, text + name + 1, &found));
    *out = found;
    return DPMF_OK;
}

dpmf_status dpmf_sampling_format(const dpmf_sampling *sampling, char out[64]) {
    char number[32];
    TRY(dpmf_i_account_sampling_check(sampling));
    const sampling_form *form = &FORMS[sampling->kind];
    dpmf_i_base_format_double(sampling->probability, number);
    int used = snprintf(out, 64, "%s", form->name);
    if (form->has_probability) used += snprintf(out + used, 64 - (size_t)used, ":%s", number);
    if (form->has_count)
        snprintf(out + used, 64 - (size_t)used, "%c%lld", form->has_probability ? ',' : ':',
                 (long long)sampling->count);
    return DPMF_OK;
}

dpmf_status dpmf_i_account_sampling_check(const dpmf_sampling *s) {
    if ((unsigned)s->kind >= FORM_COUNT)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "sampling kind %d, accepted 0 to %d", (int)s->kind,
                                FORM_COUNT - 1);
    const sampling_form *form = &FORMS[s->kind];
    if (form->has_probability && !(s->probability >= 0 && s->probability <= 1))
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: probability %g, accepted 0 to 1", form->form,
                                s->probability);
    if (form->has_count && s->count < 1)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: %lld, accepted 1 or more", form->form,
                                (long long)s->count);
    return DPMF_OK;
}
