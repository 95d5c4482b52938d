/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samplers: the public calls over each kind's table of operations.
 *
 * The secret words come from their own subkey, HKDF(key, "dpmf sampler 1", text/units[/SHA-256 of the label]). It is
 * independent of those of the noise, and another text, number of units or label gives other batches. The number of
 * steps is no part of it, so that a longer run begins with the batches of a shorter one.
 */
#include "sampler/sampler.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "crypto/crypto.h"
#include "workload/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- from text: names, values and the ranges that are accepted ---- */

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
    {"fixed", "fixed:M,N", SAMPLER_FIXED, 0},
    {"fixed-replace", "fixed-replace:M,N", SAMPLER_FIXED_REPLACE, 0},
};
enum { FORM_COUNT = sizeof FORMS / sizeof FORMS[0] };

/* Min-sep samplers hold a 32-bit step for each unit and sum over the steps when they are made. */
static const int64_t SEPARATED_STEPS_MAX = (int64_t)1 << 28;

static dpmf_status refuse_sampler(const char *text, const char *why) {
    char shown[64], forms[240] = "";
    for (int i = 0, used = 0; i < FORM_COUNT && used < (int)sizeof forms; i++)
        used += snprintf(forms + used, sizeof forms - (size_t)used, "%s%s", i == 0 ? "" : ", ", FORMS[i].form);
    return base_fail(DPMF_ERROR_ARGUMENT, "sampler '%s': %s (%s)", base_show(text, strlen(text), shown), why, forms);
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
    const int fixed = form->kind == SAMPLER_FIXED || form->kind == SAMPLER_FIXED_REPLACE;
    const int even = form->kind == SAMPLER_BINS || form->kind == SAMPLER_ALLOCATION || fixed;
    if (fixed && sampling.units != units)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampler %s: batches from N = %" PRId64 " units, but there are %" PRId64 ", accepted: as many",
                         form->form, sampling.units, units);
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
    plan->most = form->kind == SAMPLER_FIXED ? sampling.picks : sampling.cap;
    plan->separation = form->kind == SAMPLER_POISSON ? 1 : sampling.count;
    return dpmf_sampling_format(&sampling, plan->text);
}

static dpmf_status parse_plan(const char *text, int64_t units, int64_t steps, sampler_plan *out) {
    const int64_t most = (int64_t)1 << 53;
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the sampler's text is NULL");
    if (units < 1 || units > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler: units = %" PRId64 ", accepted 1 to 2^53", units);
    if (steps < 1 || steps > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler: steps = %" PRId64 ", accepted 1 to 2^53", steps);
    const size_t length = strcspn(text, ":");
    const sampler_form *form = NULL;
    for (int i = 0; i < FORM_COUNT; i++)
        if (strlen(FORMS[i].name) == length && memcmp(FORMS[i].name, text, length) == 0) form = &FORMS[i];
    if (form == NULL) return refuse_sampler(text, "not a sampler");
    sampler_plan plan = {.kind = form->kind};
    if (form->values > 0)
        TRY(plan_ordered(text, form, units, steps, &plan));
    else
        TRY(plan_sampled(text, form, units, steps, &plan));
    *out = plan;
    return DPMF_OK;
}

/* ---- the calls ---- */

static const sampler_ops *const OPS[] = {
    [SAMPLER_CYCLIC] = &sampler_cyclic,       [SAMPLER_SHUFFLED] = &sampler_shuffled,
    [SAMPLER_POISSON] = &sampler_poisson,     [SAMPLER_BLOCK_CYCLIC] = &sampler_block_cyclic,
    [SAMPLER_BINS] = &sampler_bins,           [SAMPLER_SEPARATED] = &sampler_separated,
    [SAMPLER_SCHEDULED] = &sampler_scheduled, [SAMPLER_ALLOCATION] = &sampler_allocation,
    [SAMPLER_FIXED] = &sampler_fixed,         [SAMPLER_FIXED_REPLACE] = &sampler_fixed_replace,
};

static dpmf_status open_words(dpmf_sampler *s, const uint8_t key[32]) {
    char name[32], info[64 + 24 + 2 + 64];
    uint8_t subkey[32];
    snprintf(name, sizeof name, "dpmf sampler %d", SAMPLER_VERSION);
    snprintf(info, sizeof info, "%s/%" PRId64 "%s%s", s->plan.text, s->units, s->label[0] == '\0' ? "" : "/", s->label);
    TRY(crypto_key_derive(key, name, info, subkey));
    const dpmf_status status = sampler_words_open(subkey, kernels_seed_get(), &s->words);
    crypto_wipe(subkey, sizeof subkey);
    return status;
}

static dpmf_status open_sampler(dpmf_sampler *s, const uint8_t key[32], const char *label) {
    if (label != NULL && *label != '\0') {
        const base_part part = {label, strlen(label)};
        TRY(base_sha256(1, &part, s->label));
    }
    TRY(sampler_keys(key, s));
    TRY(sampler_realise(&s->plan, s->steps, &s->realised));
    TRY(open_words(s, key));
    s->ops = OPS[s->plan.kind];
    TRY(s->ops->open(s));
    return sampler_capped_open(s);
}

dpmf_status dpmf_sampler_create(const char *text, int64_t units, int64_t steps, const uint8_t key[DPMF_KEY_SIZE],
                                const char *label, dpmf_sampler **out) {
    sampler_plan plan;
    dpmf_sampler *made = NULL;
    TRY(parse_plan(text, units, steps, &plan));
    if (key == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "sampler: the key is NULL");
    TRY(base_alloc(1, sizeof *made, "a sampler", (void **)&made));
    made->plan = plan;
    made->units = units;
    made->steps = steps;
    const dpmf_status status = open_sampler(made, key, label);
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_sampler_free(made);
    return status;
}

void dpmf_sampler_free(dpmf_sampler *s) {
    if (s == NULL) return;
    if (s->ops != NULL && s->ops->close != NULL) s->ops->close(s);
    sampler_capped_close(s);
    sampler_words_close(&s->words);
    dpmf_participation_free(s->realised);
    crypto_wipe(s, sizeof *s);
    base_free(s);
}

static dpmf_status take_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    if (batch == NULL || count == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampler %s: batch or count is NULL, accepted: room for %" PRId64 " units", s->plan.text,
                         s->capacity);
    if (s->step >= s->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler %s: past the last of %" PRId64 " steps", s->plan.text, s->steps);
    if (s->drawn == NULL) {
        TRY(s->ops->batch(s, offer, batch, count));
    } else {
        int64_t drawn = 0;
        TRY(s->ops->batch(s, offer, s->drawn, &drawn));
        TRY(sampler_capped_keep(s, drawn, batch, count));
    }
    s->step++;
    return DPMF_OK;
}

dpmf_status dpmf_sampler_next(dpmf_sampler *s, int64_t *batch, int64_t *count) {
    return take_batch(s, (sampler_offer){s->units, NULL}, batch, count);
}

static dpmf_status check_offer(const dpmf_sampler *s, int64_t available, const int64_t *unit) {
    if (s->plan.kind != SAMPLER_SCHEDULED)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "sampler %s: only scheduled samplers take offers", s->plan.text);
    if (available < 0 || available > s->units || (available > 0 && unit == NULL))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampler %s: an offer of %" PRId64 " units, accepted 0 to %" PRId64 ", and not NULL",
                         s->plan.text, available, s->units);
    for (int64_t i = 0; i < available; i++)
        if (unit[i] < 0 || unit[i] >= s->units || (i > 0 && unit[i] <= unit[i - 1]))
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "sampler %s: unit %" PRId64 " at place %" PRId64 " of an offer, accepted 0 to %" PRId64
                             ", rising",
                             s->plan.text, unit[i], i, s->units - 1);
    return DPMF_OK;
}

dpmf_status dpmf_sampler_offer(dpmf_sampler *s, int64_t available, const int64_t *unit, int64_t *batch,
                               int64_t *count) {
    TRY(check_offer(s, available, unit));
    TRY(take_batch(s, (sampler_offer){available, unit}, batch, count));
    s->offered = 1;
    return DPMF_OK;
}

dpmf_status dpmf_sampler_seek(dpmf_sampler *s, int64_t step) {
    if (step < 0 || step > s->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler %s: step %" PRId64 ", accepted 0 to %" PRId64, s->plan.text,
                         step, s->steps);
    if (s->ops->seek != NULL) TRY(s->ops->seek(s, step));
    s->step = step;
    return DPMF_OK;
}

dpmf_sampler_info dpmf_sampler_get(const dpmf_sampler *s) {
    return (dpmf_sampler_info){.capacity = s->capacity,
                               .expected = s->expected,
                               .step = s->step,
                               .participation = s->realised == NULL ? NULL : s->realised->text,
                               .sampling = s->plan.sampling,
                               .text = s->plan.text};
}
