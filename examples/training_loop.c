/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private training loop: least squares by SGD with momentum, gradients clipped and summed, correlated noise added in
 * one call over the buffers of the "model" (weights and a bias), with a state file that would let it be resumed. The
 * data are synthetic; the order of the calls in one step matters.
 */
#include <dpmf.h>
#include <stdio.h>
#include <unistd.h>

enum { STEPS = 200, EXAMPLES = 4000, BATCH = EXAMPLES / STEPS, FEATURES = 6, DIM = FEATURES + 1 };
static const double CLIP = 1.0, RATE = 0.5, MOMENTUM = 0.9, SIGMA = 1.0;

static double random_number(uint64_t *state) { /* data only, never noise */
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

/* Example i: features in [-1, 1), and a target that the weights 1, 2, .. and the bias 0.5 explain. */
static double make_example(int64_t i, double features[FEATURES]) {
    uint64_t state = (uint64_t)i * 2862933555777941757u + 3037000493u;
    double target = 0.5;
    for (int k = 0; k < FEATURES; k++) {
        features[k] = random_number(&state);
        target += features[k] * (k + 1) / FEATURES;
    }
    return target;
}

/* Adds the clipped gradient of one example to the two sums. */
static void add_gradient(const double *weights, double bias, int64_t i, float *weight_sum, float *bias_sum) {
    const double longest = 2.6458; /* above sqrt(DIM), which bounds the norm of the features, at most 1 each */
    double features[FEATURES], error = bias - make_example(i, features);
    for (int k = 0; k < FEATURES; k++)
        error += weights[k] * features[k];
    const double norm = longest * (error < 0 ? -error : error); /* of the gradient, at most */
    const double scale = norm > CLIP ? CLIP / norm : 1;
    for (int k = 0; k < FEATURES; k++)
        weight_sum[k] += (float)(scale * error * features[k]);
    *bias_sum += (float)(scale * error);
}

/* The loop itself: sum clipped gradients, add a row of noise, step. */
static dpmf_status train(dpmf_noise *noise, double weights[FEATURES], double *bias) {
    double velocity[DIM] = {0};
    for (int64_t step = dpmf_noise_get(noise).step; step < STEPS; step++) {
        float weight_sum[FEATURES] = {0}, bias_sum = 0;
        for (int64_t i = step * BATCH; i < (step + 1) * BATCH; i++) /* each example once: single participation */
            add_gradient(weights, *bias, i, weight_sum, &bias_sum);
        const dpmf_segment model[] = {{weight_sum, FEATURES}, {&bias_sum, 1}};
        dpmf_status status = dpmf_noise_add(noise, 1.0, 2, model);
        if (status != DPMF_OK) return status;
        for (int k = 0; k < DIM; k++) {
            velocity[k] = MOMENTUM * velocity[k] + (double)(k < FEATURES ? weight_sum[k] : bias_sum) / BATCH;
            *(k < FEATURES ? &weights[k] : bias) -= RATE * (1 - MOMENTUM) * velocity[k];
        }
    }
    return DPMF_OK;
}

int main(void) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_noise *noise = NULL;
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_noise_options options = dpmf_noise_options_defaults();
    dpmf_strategy_options bands = dpmf_strategy_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    char state[64];
    double weights[FEATURES] = {0}, bias = 0;
    snprintf(state, sizeof state, "training_loop.%ld.state", (long)getpid()); /* a real run keeps key and state */
    about.sigma = SIGMA;
    bands.bands = 16;
    options.state = state;
    options.prefetch = 1;
    dpmf_status status = dpmf_workload_parse("momentum:0.9", STEPS, &workload);
    if (status == DPMF_OK) status = dpmf_strategy_create("bsr", workload, &bands, &strategy);
    if (status == DPMF_OK) status = dpmf_mechanism_create(workload, NULL, strategy, &about, &mechanism);
    if (status == DPMF_OK) status = dpmf_key_create(key); /* a real run: dpmf_key_load("run.key", 1, key) */
    if (status == DPMF_OK) status = dpmf_noise_create(mechanism, DIM, CLIP, key, &options, &noise);
    dpmf_key_wipe(key);
    if (status == DPMF_OK) status = train(noise, weights, &bias);
    if (status == DPMF_OK)
        printf("%d private steps, noise of scale %.3f: bias %.2f (0.50 without noise), last weight %.2f (1.00)\n",
               STEPS, dpmf_noise_get(noise).release.scale, bias, weights[FEATURES - 1]);
    else
        fprintf(stderr, "%s\n", dpmf_last_error());
    dpmf_noise_free(noise);
    dpmf_mechanism_free(mechanism);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    unlink(state);
    return status == DPMF_OK ? 0 : 1;
}
