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
#include "crypto/crypto.h"
#include "workload/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const sampler_ops *const OPS[] = {
    [SAMPLER_CYCLIC] = &sampler_cyclic,       [SAMPLER_SHUFFLED] = &sampler_shuffled,
    [SAMPLER_POISSON] = &sampler_poisson,     [SAMPLER_BLOCK_CYCLIC] = &sampler_block_cyclic,
    [SAMPLER_BINS] = &sampler_bins,           [SAMPLER_SEPARATED] = &sampler_separated,
    [SAMPLER_SCHEDULED] = &sampler_scheduled, [SAMPLER_ALLOCATION] = &sampler_allocation,
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
    TRY(sampler_parse(text, units, steps, &plan));
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

/* ---- batches ---- */

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

/* ---- properties ---- */

dpmf_sampler_info dpmf_sampler_get(const dpmf_sampler *s) {
    return (dpmf_sampler_info){.capacity = s->capacity,
                               .expected = s->expected,
                               .step = s->step,
                               .participation = s->realised == NULL ? NULL : s->realised->text,
                               .sampling = s->plan.sampling,
                               .text = s->plan.text};
}
