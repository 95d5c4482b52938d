/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of the noise stream with canaries: canary i is coordinate i of the row, of size 1 with a clip norm of 1. Under sampling
 * the mechanism's own sampler chooses the steps of each canary. Without sampling every canary has the same steps: the
 * pattern with the largest |C u| among those of equal distances that the participation allows. For single and cyclic
 * participation it is the worst pattern.
 */
#include "audit/audit.h"

#include "base/memory.h"

#include <math.h>

enum { STARTS_MAX = 64 }; /* first steps that are tried */

/* u = first, first + b, ..., k of them; returns |C u|^2. */
static dpmf_status try_start(const dpmf_audit *a, int64_t first, double *u, double *image, double *squared) {
    const dpmf_participation *p = dpmf_mechanism_get(a->mechanism).participation;
    const int64_t b = dpmf_participation_get(p).separation, k = dpmf_participation_get(p).count;
    for (int64_t t = 0; t < a->steps; t++)
        u[t] = 0;
    for (int64_t i = 0, t = first; i < k && t < a->steps; i++, t += b)
        u[t] = 1;
    TRY(dpmf_strategy_apply(dpmf_mechanism_get(a->mechanism).strategy, u, image));
    *squared = 0;
    for (int64_t t = 0; t < a->steps; t++)
        *squared += image[t] * image[t];
    return DPMF_OK;
}

static dpmf_status find_pattern(const dpmf_audit *a, double *u) {
    const dpmf_participation *p = dpmf_mechanism_get(a->mechanism).participation;
    const int64_t b = dpmf_participation_get(p).separation, starts = b < a->steps ? b : a->steps;
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
    TRY(audit_sampling(a->mechanism, text, &sampled));
    if (sampled) {
        TRY(dpmf_sampler_create(text, a->canaries, a->steps, key, "dpmf audit", &sampler));
        TRY_DONE(dpmf_sampler_check(sampler, a->mechanism));
        TRY_DONE(audit_take(a, sampler));
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
    dpmf_noise *noise = NULL;
    double *row = NULL;
    dpmf_status status = DPMF_OK;
    wanted.precision = DPMF_FLOAT64;
    wanted.label = "dpmf audit";
    wanted.run = a->options.run;
    TRY(audit_allocate(a, a->options.canaries));
    TRY(audit_toss(a, key));
    TRY(take_all(a, key));
    TRY_DONE(base_alloc_doubles(a->canaries, "a row", &row));
    TRY_DONE(dpmf_noise_create(actual, a->canaries, 1.0, key, &wanted, &noise));
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
