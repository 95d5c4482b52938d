/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training run with canaries, through a trainer that the caller names. Here are the sampler and the coins; the trainer makes
 * examples of the canaries, trains on them and gives back what it released along each of them.
 */
#include "audit/audit.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>

/*
 * A sampler that realises the participation, and how many canaries it takes to fill its batches. Without sampling the first of
 * those that go through the units in turn that the mechanism accepts.
 */
static dpmf_status choose_sampler(const dpmf_audit *a, const uint8_t key[DPMF_KEY_SIZE], char text[64],
                                  int64_t *canaries) {
    const dpmf_participation *p = dpmf_mechanism_get(a->mechanism).participation;
    const int64_t b = dpmf_participation_get(p).separation, batch = (a->options.canaries + b - 1) / b;
    int sampled = 0;
    dpmf_status status = DPMF_OK;
    TRY(audit_sampling(a->mechanism, text, &sampled));
    *canaries = sampled ? a->options.canaries : batch * b;
    for (int way = 0; way < 2 && !sampled; way++) {
        dpmf_sampler *tried = NULL;
        if (way == 0)
            snprintf(text, 64, "cyclic:%" PRId64, batch);
        else
            snprintf(text, 64, "scheduled:%" PRId64 ",%" PRId64 ",%" PRId64, batch, dpmf_participation_get(p).count, b);
        TRY(dpmf_sampler_create(text, *canaries, a->steps, key, "dpmf audit", &tried));
        status = dpmf_sampler_check(tried, a->mechanism);
        dpmf_sampler_free(tried);
        if (status == DPMF_OK || status == DPMF_ERROR_MEMORY) break;
    }
    return status;
}

dpmf_status audit_run_trained(dpmf_audit *a, const dpmf_mechanism *actual, const uint8_t key[DPMF_KEY_SIZE]) {
    char text[64];
    int64_t canaries = 0;
    double *sign = NULL;
    dpmf_sampler *sampler = NULL, *twin = NULL;
    dpmf_status status = DPMF_OK;
    TRY(choose_sampler(a, key, text, &canaries));
    TRY(audit_allocate(a, canaries));
    TRY(audit_toss(a, key));
    TRY_DONE(base_alloc_doubles(canaries, "the canaries", &sign));
    for (int64_t i = 0; i < canaries; i++)
        sign[i] = audit_sign(a, i);
    TRY_DONE(dpmf_sampler_create(text, canaries, a->steps, key, "dpmf audit", &sampler));
    TRY_DONE(dpmf_sampler_create(text, canaries, a->steps, key, "dpmf audit", &twin)); /* the same batches */
    TRY_DONE(audit_take(a, twin));
    const dpmf_audit_run run = {.mechanism = actual,
                                .sampler = sampler,
                                .key = key,
                                .canaries = canaries,
                                .steps = a->steps,
                                .sign = sign,
                                .released = a->released,
                                .run = a->options.run};
    TRY_DONE(a->options.train(a->options.train_context, &run));
done:
    dpmf_sampler_free(twin);
    dpmf_sampler_free(sampler);
    base_free(sign);
    return status;
}
