/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training run with canaries: softmax regression of two classes, whose examples are all canaries, examples like any other to
 * the sampler, the clipping and the trainer.
 *
 * Canary i has the feature i, of size R, and no other: its gradient is (p - e_y) x (R e_i, 1), and with two classes p - e_y is
 * along (1, -1) whatever p is. R is so large that the norm is above the clip norm, and that the bias has a part of 1/R of it: what
 * is left after clipping is clip (1, -1)/sqrt(2) x e_i but for 1/(2 R^2), a direction that no other canary has. So that p stays 1/2
 * the learning rate is 2^-40: the weights then are the running sums of what was released, in units of it, and the attacker takes
 * differences. (Rounding them to float costs 2^-24 of a running sum, against noise of the size of one step.)
 *
 * A canary that is out has no numbers in its features: the trainer promises that such an example adds 0. Where neighbours
 * replace, the coin chooses the label, and with it the sign.
 */
#include "audit/audit.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { TRAINER_CANARIES_MAX = 20000 }; /* features x examples: 1.6 GB */
static const float LARGE = 0x1p20f;
static const double LEARNING_RATE = 0x1p-40;

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

static dpmf_status make_data(const dpmf_audit *a, dpmf_dataset **out) {
    const int64_t m = a->canaries;
    float *x = NULL;
    int32_t *label = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(m * m, sizeof *x, "the canaries", (void **)&x));
    TRY_DONE(base_alloc(m, sizeof *label, "their labels", (void **)&label));
    for (int64_t i = 0; i < m; i++) {
        const double sign = audit_sign(a, i);
        x[i * m + i] = sign != 0 ? LARGE : NAN;
        label[i] = sign < 0;
    }
    TRY_DONE(dpmf_dataset_create(m, m, 2, x, label, NULL, out));
done:
    base_free(x);
    base_free(label);
    return status;
}

/*
 * The weights move by -rate sum/expected; canary i is (1, -1)/sqrt(2) of the classes with label 1, whose gradient is (p_0, p_1 - 1),
 * and the opposite with label 0, which is what a canary that is in has.
 */
static void take_differences(dpmf_audit *a, int64_t t, double expected, const float *weights, float *before) {
    const int64_t m = a->canaries;
    for (int64_t i = 0; i < m; i++) {
        const double first = (double)weights[i] - (double)before[i],
                     second = (double)weights[m + i] - (double)before[m + i];
        a->released[i * a->steps + t] = (first - second) * sqrt(0.5) * expected / LEARNING_RATE;
        before[i] = weights[i];
        before[m + i] = weights[m + i];
    }
}

static dpmf_status train(dpmf_audit *a, dpmf_trainer *trainer, double expected) {
    dpmf_status status = DPMF_OK;
    float *before = NULL;
    TRY(base_alloc(2 * a->canaries, sizeof *before, "the weights", (void **)&before));
    for (int64_t t = 0; t < a->steps; t++) {
        TRY_DONE(dpmf_trainer_next(trainer));
        take_differences(a, t, expected, dpmf_trainer_weights(trainer), before);
    }
done:
    base_free(before);
    return status;
}

dpmf_status audit_run_trainer(dpmf_audit *a, const dpmf_mechanism *actual, const uint8_t key[DPMF_KEY_SIZE]) {
    char text[64];
    int64_t canaries = 0;
    dpmf_trainer_options options = dpmf_trainer_options_defaults();
    dpmf_sampler *sampler = NULL, *twin = NULL;
    dpmf_dataset *data = NULL;
    dpmf_trainer *trainer = NULL;
    dpmf_status status = DPMF_OK;
    options.learning_rate = LEARNING_RATE;
    options.run = a->options.run;
    TRY(choose_sampler(a, key, text, &canaries));
    if (canaries > TRAINER_CANARIES_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " canaries for the trainer, accepted: up to %d", canaries,
                         TRAINER_CANARIES_MAX);
    TRY(audit_allocate(a, canaries));
    TRY(audit_toss(a, key));
    TRY_DONE(dpmf_sampler_create(text, canaries, a->steps, key, "dpmf audit", &sampler));
    TRY_DONE(dpmf_sampler_create(text, canaries, a->steps, key, "dpmf audit", &twin)); /* the same batches */
    TRY_DONE(audit_take(a, twin));
    TRY_DONE(make_data(a, &data));
    TRY_DONE(dpmf_trainer_create(data, actual, sampler, key, &options, &trainer));
    TRY_DONE(train(a, trainer, dpmf_sampler_get(sampler).expected));
done:
    dpmf_trainer_free(trainer);
    dpmf_dataset_free(data);
    dpmf_sampler_free(twin);
    dpmf_sampler_free(sampler);
    return status;
}
