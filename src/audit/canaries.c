/* SPDX-License-Identifier: Apache-2.0 */
/* Canaries of both kinds of run: memory for them, fair coins, and the steps in which a sampler takes them. */
#include "audit/audit.h"

#include "base/memory.h"

#include <inttypes.h>

dpmf_status audit_allocate(dpmf_audit *a, int64_t canaries) {
    if (a->steps > INT64_MAX / 16 / canaries)
        return base_fail(DPMF_ERROR_MEMORY, "%" PRId64 " canaries over %" PRId64 " steps", canaries, a->steps);
    a->canaries = canaries;
    TRY(base_alloc(canaries, 1, "the coins", (void **)&a->included));
    TRY(base_alloc(canaries * a->steps, 1, "the steps of the canaries", (void **)&a->taken));
    TRY(base_alloc_doubles(canaries * a->steps, "what the canaries released", &a->released));
    TRY(base_alloc_doubles(canaries, "the scores", &a->score));
    TRY(base_alloc_doubles(canaries, "the scores", &a->projected));
    return base_alloc_doubles(canaries, "the scores", &a->norm);
}

/* A step of Poisson sampling with probability 1/2, which is exact in binary, under a label that no other code uses. */
dpmf_status audit_toss(dpmf_audit *a, const uint8_t key[DPMF_KEY_SIZE]) {
    dpmf_sampler *coins = NULL;
    dpmf_status status = DPMF_OK;
    int64_t *heads = NULL, count = 0;
    TRY_DONE(base_alloc(a->canaries, sizeof *heads, "the coins", (void **)&heads));
    TRY_DONE(dpmf_sampler_create("poisson:0.5", a->canaries, 1, key, "dpmf audit coins", &coins));
    TRY_DONE(dpmf_sampler_next(coins, heads, &count));
    for (int64_t i = 0; i < count; i++)
        a->included[heads[i]] = 1;
done:
    dpmf_sampler_free(coins);
    base_free(heads);
    return status;
}

dpmf_status audit_take(dpmf_audit *a, dpmf_sampler *sampler) {
    dpmf_status status = DPMF_OK;
    int64_t *batch = NULL, count = 0;
    TRY_DONE(base_alloc(dpmf_sampler_get(sampler).capacity, sizeof *batch, "a batch", (void **)&batch));
    for (int64_t t = 0; t < a->steps; t++) {
        TRY_DONE(dpmf_sampler_next(sampler, batch, &count));
        for (int64_t i = 0; i < count; i++)
            a->taken[batch[i] * a->steps + t] = 1;
    }
done:
    base_free(batch);
    return status;
}

dpmf_status audit_sampling(const dpmf_mechanism *mechanism, char text[64], int *sampled) {
    const dpmf_sampling sampling = dpmf_mechanism_get(mechanism).sampling;
    text[0] = '\0';
    *sampled = !dpmf_sampling_is_none(&sampling);
    return *sampled ? dpmf_sampling_format(&sampling, text) : DPMF_OK;
}
