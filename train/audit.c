/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An audit through the trainer: softmax regression of two classes, whose examples are all canaries, examples like any other to
 * the sampler, the clipping and the trainer.
 *
 * Canary i has the feature i, of size R, and no other: its gradient is (p - e_y) x (R e_i, 1), and with two classes p - e_y is
 * along (1, -1) for every p. R is so large that the norm is above the clip norm, and that the bias has a part of 1/R of it: what
 * is left after clipping is clip (1, -1)/sqrt(2) x e_i but for 1/(2 R^2), a direction that no other canary has. So that p stays 1/2
 * the learning rate is 2^-40: the weights then are the running sums of what was released, in units of it, and the attacker takes
 * differences. (Rounding them to float costs 2^-24 of a running sum, against noise of the size of one step.)
 *
 * A canary that is out has no numbers in its features: the trainer promises that such an example adds 0. Where neighbours
 * replace, the coin chooses the label, and with it the sign.
 */
#include "base/memory.h"
#include "dpmf_train.h"

#include <inttypes.h>
#include <math.h>

enum { TRAINER_CANARIES_MAX = 20000 }; /* features x examples: 1.6 GB */
static const float LARGE = 0x1p20f;
static const double LEARNING_RATE = 0x1p-40;

static dpmf_status make_data(const dpmf_audit_run *run, dpmf_dataset **out) {
    const int64_t m = run->canaries;
    float *x = NULL;
    int32_t *label = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(m * m, sizeof *x, "the canaries", (void **)&x));
    TRY_DONE(base_alloc(m, sizeof *label, "their labels", (void **)&label));
    for (int64_t i = 0; i < m; i++) {
        x[i * m + i] = run->sign[i] != 0 ? LARGE : NAN;
        label[i] = run->sign[i] < 0;
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
static void take_differences(const dpmf_audit_run *run, int64_t t, const float *weights, float *before) {
    const int64_t m = run->canaries;
    const double expected = dpmf_sampler_get(run->sampler).expected;
    for (int64_t i = 0; i < m; i++) {
        const double first = (double)weights[i] - (double)before[i],
                     second = (double)weights[m + i] - (double)before[m + i];
        run->released[i * run->steps + t] = (first - second) * sqrt(0.5) * expected / LEARNING_RATE;
        before[i] = weights[i];
        before[m + i] = weights[m + i];
    }
}

dpmf_status dpmf_trainer_audit(void *context, const dpmf_audit_run *run) {
    dpmf_trainer_options options = dpmf_trainer_options_defaults();
    dpmf_dataset *data = NULL;
    dpmf_trainer *trainer = NULL;
    float *before = NULL;
    dpmf_status status = DPMF_OK;
    (void)context;
    if (run->canaries > TRAINER_CANARIES_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " canaries for the trainer, accepted: up to %d", run->canaries,
                         TRAINER_CANARIES_MAX);
    options.learning_rate = LEARNING_RATE;
    options.run = run->run;
    TRY_DONE(make_data(run, &data));
    TRY_DONE(dpmf_trainer_create(data, run->mechanism, run->sampler, run->key, &options, &trainer));
    TRY_DONE(base_alloc(2 * run->canaries, sizeof *before, "the weights", (void **)&before));
    for (int64_t t = 0; t < run->steps; t++) {
        TRY_DONE(dpmf_trainer_next(trainer));
        take_differences(run, t, dpmf_trainer_weights(trainer), before);
    }
done:
    base_free(before);
    dpmf_trainer_free(trainer);
    dpmf_dataset_free(data);
    return status;
}
