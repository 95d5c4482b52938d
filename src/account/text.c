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
    [DPMF_ENGINE_FOURIER] = "fourier",
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
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the engine's name is NULL");
    for (int i = 0; i < ENGINE_COUNT; i++)
        if (strcmp(text, ENGINES[i]) == 0) {
            *out = (dpmf_engine)i;
            return DPMF_OK;
        }
    return base_fail(DPMF_ERROR_ARGUMENT, "engine '%s', accepted: auto, fourier, connect-the-dots, rdp, monte-carlo",
                     base_show(text, strlen(text), shown));
}

/* ---- samplings ---- */

/* The kinds: one row each, from which parsing, texts, lists and errors come. */
typedef struct sampling_form {
    const char *name, *form;
    int has_probability, has_count, has_picks;
    int composes; /* 1: a run is so many compositions of one sampled step */
    int banded;   /* 1: for C of at most `count` bands, or of one where there is no count */
    int cappable; /* 1: there is an account of batches with a cap */
} sampling_form;

static const sampling_form FORMS[] = {
    [DPMF_SAMPLING_NONE] = {"none", "none", 0, 0, .composes = 0},
    [DPMF_SAMPLING_POISSON] = {"poisson", "poisson:Q", 1, 0, .composes = 1, .banded = 1, .cappable = 1},
    [DPMF_SAMPLING_BLOCK_CYCLIC] = {"block-cyclic", "block-cyclic:Q,BANDS", 1, 1, .composes = 1, .banded = 1,
                                    .cappable = 1},
    [DPMF_SAMPLING_BALLS_IN_BINS] = {"balls-in-bins", "balls-in-bins:BINS", 0, 1, .composes = 0},
    [DPMF_SAMPLING_MIN_SEPARATION] = {"min-sep", "min-sep:P,B", 1, 1, .banded = 1, .cappable = 1},
    [DPMF_SAMPLING_ALLOCATION] = {"allocation", "allocation:K,T", 0, 1, .has_picks = 1, .banded = 1},
};
enum { FORM_COUNT = sizeof FORMS / sizeof FORMS[0] };

const char *dpmf_sampling_form(dpmf_sampling_kind kind) {
    return (unsigned)kind < FORM_COUNT ? FORMS[kind].form : NULL;
}

int dpmf_sampling_is_none(const dpmf_sampling *sampling) {
    return sampling->kind == DPMF_SAMPLING_NONE;
}

int account_sampling_composes(const dpmf_sampling *sampling) {
    return FORMS[sampling->kind].composes;
}

int account_sampling_allocates(const dpmf_sampling *sampling) {
    return sampling->kind == DPMF_SAMPLING_ALLOCATION || sampling->kind == DPMF_SAMPLING_BALLS_IN_BINS;
}

int64_t account_sampling_bands(const dpmf_sampling *sampling) {
    const sampling_form *form = &FORMS[sampling->kind];
    return !form->banded ? 0 : form->has_count && !form->has_picks ? sampling->count : 1;
}

static dpmf_status refuse_sampling(const char *text, const char *why) {
    char shown[64], forms[200] = "";
    for (int i = 0, used = 0; i < FORM_COUNT && used < (int)sizeof forms; i++)
        used += snprintf(forms + used, sizeof forms - (size_t)used, "%s%s", i == 0 ? "" : ", ", FORMS[i].form);
    return base_fail(DPMF_ERROR_ARGUMENT, "sampling '%s': %s (%s)", base_show(text, strlen(text), shown), why, forms);
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
        if (!base_parse_double(values, first, &out->probability) || out->probability < 0 || out->probability > 1)
            return refuse_sampling(text, "a probability from 0 to 1 is accepted");
        if (form->has_count != (*rest == ',')) return refuse_sampling(text, "the number of values differs from");
        if (form->has_count) rest++;
    }
    if (form->has_picks) {
        size_t length = strcspn(rest, ",");
        if (rest[length] != ',' || !base_parse_integer(rest, length, &out->picks) || out->picks < 1)
            return refuse_sampling(text, "two whole numbers of at least 1 are accepted");
        rest += length + 1;
    }
    if (form->has_count && (!base_parse_integer(rest, strlen(rest), &out->count) || out->count < 1))
        return refuse_sampling(text, "a whole number of at least 1 is accepted");
    if (out->picks > out->count) return refuse_sampling(text, "K is at most T");
    return DPMF_OK;
}

/* ",cap:M" or ",cap:M:N" at the end. */
static dpmf_status read_cap(const char *text, const char *values, dpmf_sampling *out) {
    const size_t cap = strcspn(values, ":");
    if (!base_parse_integer(values, cap, &out->cap) || out->cap < 1)
        return refuse_sampling(text, "a cap of at least 1 is accepted");
    if (values[cap] == '\0') return DPMF_OK;
    if (!base_parse_integer(values + cap + 1, strlen(values + cap + 1), &out->units) || out->units < 1)
        return refuse_sampling(text, "after the cap, the number of units, at least 1, is accepted");
    return DPMF_OK;
}

static dpmf_status parse_plain(const char *text, dpmf_sampling *out) {
    size_t name = strcspn(text, ":");
    const sampling_form *form = find_form(text, name);
    if (form == NULL) return refuse_sampling(text, "not a sampling");
    dpmf_sampling found = {.kind = (dpmf_sampling_kind)(form - FORMS)};
    int wants = form->has_probability || form->has_count;
    if (wants != (text[name] == ':')) return refuse_sampling(text, wants ? "values are needed" : "takes no values");
    if (wants) TRY(read_values(text, form, text + name + 1, &found));
    *out = found;
    return DPMF_OK;
}

static const char CAP[] = ",cap:";

dpmf_status dpmf_sampling_parse(const char *text, dpmf_sampling *out) {
    char plain[64];
    dpmf_sampling found = {0}, capped = {0};
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the sampling's text is NULL");
    const char *cap = strstr(text, CAP);
    if (cap == NULL) return parse_plain(text, out);
    if ((size_t)(cap - text) >= sizeof plain) return refuse_sampling(text, "too long");
    snprintf(plain, sizeof plain, "%.*s", (int)(cap - text), text);
    TRY(parse_plain(plain, &found));
    TRY(read_cap(text, cap + sizeof CAP - 1, &capped));
    found.cap = capped.cap;
    found.units = capped.units;
    TRY(account_sampling_check(&found));
    *out = found;
    return DPMF_OK;
}

dpmf_status dpmf_sampling_format(const dpmf_sampling *sampling, char out[64]) {
    char number[32], made[160];
    const size_t room = sizeof made; /* enough for the longest of all */
    TRY(account_sampling_check(sampling));
    const sampling_form *form = &FORMS[sampling->kind];
    base_format_double(sampling->probability, number);
    size_t used = (size_t)snprintf(made, room, "%s", form->name);
    if (form->has_probability) used += (size_t)snprintf(made + used, room - used, ":%s", number);
    if (form->has_picks) used += (size_t)snprintf(made + used, room - used, ":%lld", (long long)sampling->picks);
    if (form->has_count)
        used += (size_t)snprintf(made + used, room - used, "%c%lld",
                                 form->has_probability || form->has_picks ? ',' : ':', (long long)sampling->count);
    if (sampling->cap > 0) used += (size_t)snprintf(made + used, room - used, "%s%lld", CAP, (long long)sampling->cap);
    if (sampling->cap > 0 && sampling->units > 0)
        used += (size_t)snprintf(made + used, room - used, ":%lld", (long long)sampling->units);
    if (used > 63)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampling '%s': longer than 63 bytes; a probability of fewer digits is accepted", made);
    memcpy(out, made, used + 1);
    return DPMF_OK;
}

dpmf_status account_sampling_check(const dpmf_sampling *s) {
    if ((unsigned)s->kind >= FORM_COUNT)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling kind %d, accepted 0 to %d", (int)s->kind, FORM_COUNT - 1);
    const sampling_form *form = &FORMS[s->kind];
    if (form->has_probability && !(s->probability >= 0 && s->probability <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: probability %g, accepted 0 to 1", form->form,
                         s->probability);
    if (form->has_count && s->count < 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: %lld, accepted 1 or more", form->form, (long long)s->count);
    if (s->cap != 0 && !form->cappable)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "sampling %s with a cap: accepted with poisson, block-cyclic and min-sep", form->form);
    if (s->cap < 0 || s->units < 0 || s->units > (int64_t)1000000000000)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampling %s: a cap of %lld on batches from %lld units, accepted: 0 (none) or more, "
                         "and up to 1e12 units",
                         form->form, (long long)s->cap, (long long)s->units);
    if (form->has_picks && (s->picks < 1 || s->picks > s->count))
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: %lld picks, accepted 1 to %lld", form->form,
                         (long long)s->picks, (long long)s->count);
    return DPMF_OK;
}
