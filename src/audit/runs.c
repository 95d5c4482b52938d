/* SPDX-License-Identifier: Apache-2.0 */
/* Canaries of both kinds of run: memory for them, fair coins, and the steps in which a sampler takes them. */
#include "audit/audit.h"

#include "base/memory.h"
#include "mechanism/mechanism.h"
#include "workload/workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

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

/* Fair coins: a step of Poisson sampling with probability 1/2, which is exact in binary, under a label that no other code uses. */
static dpmf_status toss(dpmf_audit *a, const uint8_t key[DPMF_KEY_SIZE]) {
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

/* Finds the steps in which a sampler takes each canary. */
static dpmf_status take(dpmf_audit *a, dpmf_sampler *sampler) {
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

/* The text of the mechanism's sampler; *sampled is 0 and the text empty if it has none. */
static dpmf_status sampling_text(const dpmf_mechanism *mechanism, char text[64], int *sampled) {
    const dpmf_sampling sampling = dpmf_mechanism_get(mechanism).sampling;
    text[0] = '\0';
    *sampled = !dpmf_sampling_is_none(&sampling);
    return *sampled ? dpmf_sampling_format(&sampling, text) : DPMF_OK;
}

/*
 * ---- the noise stream with canaries ----
 *
 * Canary i is coordinate i of the row, of size 1 with a clip norm of 1. Under sampling the mechanism's own sampler chooses its
 * steps. Without sampling all have the same: of the patterns of equal distances that the participation allows, or of those that
 * its file lists, the one with the largest |C u|. For single and cyclic participation it is the worst pattern.
 */

enum { STARTS_MAX = 64 }; /* first steps that are tried */

/* u = first, first + b, ..., k of them, or pattern number `first` of a list; returns |C u|^2. */
static dpmf_status try_start(const dpmf_audit *a, int64_t first, double *u, double *image, double *squared) {
    const dpmf_participation *p = dpmf_mechanism_get(a->mechanism).participation;
    const int64_t b = dpmf_participation_get(p).separation, k = dpmf_participation_get(p).count;
    for (int64_t t = 0; t < a->steps; t++)
        u[t] = 0;
    for (int64_t i = 0, t = first; p->patterns == 0 && i < k && t < a->steps; i++, t += b)
        u[t] = 1;
    if (p->patterns > 0) workload_patterns_mark(p, first, u);
    TRY(dpmf_strategy_apply(dpmf_mechanism_get(a->mechanism).strategy, u, image));
    *squared = 0;
    for (int64_t t = 0; t < a->steps; t++)
        *squared += image[t] * image[t];
    return DPMF_OK;
}

static dpmf_status find_pattern(const dpmf_audit *a, double *u) {
    const dpmf_participation *p = dpmf_mechanism_get(a->mechanism).participation;
    const int64_t b = dpmf_participation_get(p).separation;
    const int64_t starts = p->patterns > 0 ? p->patterns : b < a->steps ? b : a->steps;
    const int64_t tried = starts < STARTS_MAX ? starts : STARTS_MAX;
    double *image = NULL, best = -1, squared = 0;
    int64_t at = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(a->steps, "a pattern", &image));
    for (int64_t i = 0; i < tried; i++) {
        const int64_t first = tried > 1 ? (int64_t)((double)i * (double)(starts - 1) / (double)(tried - 1)) : 0;
        TRY_DONE(try_start(a, first, u, image, &squared));
        if (squared > best) at = first;
        best = fmax(best, squared);
    }
    TRY_DONE(try_start(a, at, u, image, &squared));
done:
    base_free(image);
    return status;
}

static dpmf_status take_all(dpmf_audit *a, const uint8_t key[DPMF_KEY_SIZE]) {
    char text[64];
    int sampled = 0;
    double *u = NULL;
    dpmf_sampler *sampler = NULL;
    dpmf_status status = DPMF_OK;
    TRY(sampling_text(a->mechanism, text, &sampled));
    if (sampled) {
        TRY(dpmf_sampler_create(text, a->canaries, a->steps, key, "dpmf audit", &sampler));
        TRY_DONE(dpmf_sampler_check(sampler, a->mechanism));
        TRY_DONE(take(a, sampler));
    } else {
        TRY(base_alloc_doubles(a->steps, "a pattern", &u));
        TRY_DONE(find_pattern(a, u));
        for (int64_t i = 0; i < a->canaries; i++)
            for (int64_t t = 0; t < a->steps; t++)
                a->taken[i * a->steps + t] = u[t] != 0;
    }
done:
    dpmf_sampler_free(sampler);
    base_free(u);
    return status;
}

dpmf_status audit_run_noise(dpmf_audit *a, const dpmf_mechanism *actual, const uint8_t key[DPMF_KEY_SIZE]) {
    dpmf_noise_options wanted = dpmf_noise_options_defaults();
    dpmf_mechanism wide = *actual; /* borrows all: each canary has one column, and no other unit is there to protect */
    dpmf_noise *noise = NULL;
    double *row = NULL;
    dpmf_status status = DPMF_OK;
    wide.problem.evaluation.sensitivity.columns = 0;
    wanted.precision = DPMF_FLOAT64;
    wanted.label = "dpmf audit";
    wanted.run = a->options.run;
    TRY(audit_allocate(a, a->options.canaries));
    TRY(toss(a, key));
    TRY(take_all(a, key));
    TRY_DONE(base_alloc_doubles(a->canaries, "a row", &row));
    TRY_DONE(dpmf_noise_create(&wide, a->canaries, 1.0, key, &wanted, &noise));
    for (int64_t t = 0; t < a->steps; t++) {
        const dpmf_segment all = {row, a->canaries};
        for (int64_t i = 0; i < a->canaries; i++)
            row[i] = a->taken[i * a->steps + t] ? audit_sign(a, i) : 0;
        TRY_DONE(dpmf_noise_add(noise, 1.0, 1, &all));
        for (int64_t i = 0; i < a->canaries; i++)
            a->released[i * a->steps + t] = row[i];
    }
done:
    dpmf_noise_free(noise);
    base_free(row);
    return status;
}

/*
 * ---- a training run with canaries ----
 *
 * Here are the sampler and the coins; the caller's trainer trains on the canaries and gives back what it released along each.
 */

dpmf_status audit_run_trained(dpmf_audit *a, const dpmf_mechanism *actual, const uint8_t key[DPMF_KEY_SIZE]) {
    char text[64];
    int64_t canaries = 0;
    double *sign = NULL;
    dpmf_sampler *sampler = NULL, *twin = NULL;
    dpmf_status status = DPMF_OK;
    /* A sampler that realises the participation (without sampling the first accepted), and the canaries that fill batches. */
    const dpmf_participation *p = dpmf_mechanism_get(a->mechanism).participation;
    const int64_t b = dpmf_participation_get(p).separation, batch = (a->options.canaries + b - 1) / b;
    int sampled = 0;
    TRY(sampling_text(a->mechanism, text, &sampled));
    canaries = sampled ? a->options.canaries : batch * b;
    for (int way = 0; way < 2 && !sampled; way++) {
        dpmf_sampler *tried = NULL;
        if (way == 0)
            snprintf(text, 64, "cyclic:%" PRId64, batch);
        else
            snprintf(text, 64, "scheduled:%" PRId64 ",%" PRId64 ",%" PRId64, batch, dpmf_participation_get(p).count, b);
        TRY(dpmf_sampler_create(text, canaries, a->steps, key, "dpmf audit", &tried));
        status = dpmf_sampler_check(tried, a->mechanism);
        dpmf_sampler_free(tried);
        if (status == DPMF_OK || status == DPMF_ERROR_MEMORY) break;
    }
    TRY(status);
    TRY(audit_allocate(a, canaries));
    TRY(toss(a, key));
    TRY_DONE(base_alloc_doubles(canaries, "the canaries", &sign));
    for (int64_t i = 0; i < canaries; i++)
        sign[i] = audit_sign(a, i);
    TRY_DONE(dpmf_sampler_create(text, canaries, a->steps, key, "dpmf audit", &sampler));
    TRY_DONE(dpmf_sampler_create(text, canaries, a->steps, key, "dpmf audit", &twin)); /* the same batches */
    TRY_DONE(take(a, twin));
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
