/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private training in a few calls: data, a mechanism for (epsilon, delta) and three passes over the data, a sampler
 * that draws batches as the mechanism assumes, a trainer with a checkpoint. The data are synthetic: points on a disc in
 * four classes.
 */
#include <dpmf.h>
#include <stdio.h>
#include <unistd.h>

enum { EXAMPLES = 3000, TEST = 1000, FEATURES = 2, CLASSES = 4, EPOCHS = 3, BATCH = 100, EPOCH = EXAMPLES / BATCH };
enum { STEPS = EPOCHS * EPOCH };
static const double EPSILON = 2.0, DELTA = 1e-5;

static double random_number(uint64_t *state) { /* data only, never noise */
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

static dpmf_status make_data(uint64_t state, int64_t count, dpmf_dataset **out) {
    static float x[EXAMPLES * FEATURES];
    static int32_t label[EXAMPLES];
    for (int64_t i = 0; i < count; i++) {
        x[2 * i] = (float)random_number(&state);
        x[2 * i + 1] = (float)random_number(&state);
        label[i] = (x[2 * i] > 0.0f) + 2 * (x[2 * i + 1] > 0.0f);
    }
    return dpmf_dataset_create(count, FEATURES, CLASSES, x, label, NULL, out);
}

/* Banded square root of prefix sums, each example in one step of each epoch, the least sigma for (epsilon, delta). */
static dpmf_status make_mechanism(dpmf_mechanism **out) {
    dpmf_workload *workload = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_strategy_options shape = dpmf_strategy_options_defaults();
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_privacy privacy;
    shape.bands = EPOCH;
    dpmf_status status = dpmf_workload_parse("prefix", STEPS, &workload);
    if (status == DPMF_OK)
        status = dpmf_participation_create(DPMF_PARTICIPATION_CYCLIC, STEPS, EPOCHS, EPOCH, &participation);
    if (status == DPMF_OK) status = dpmf_strategy_create("bsr", workload, &shape, &strategy);
    if (status == DPMF_OK) status = dpmf_calibrate_sigma(EPSILON, DELTA, NULL, &privacy);
    if (status == DPMF_OK) {
        about.sigma = privacy.sigma;
        about.epsilon = EPSILON;
        about.delta = DELTA;
        status = dpmf_mechanism_create(workload, participation, strategy, &about, out);
    }
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return status;
}

static dpmf_status train(dpmf_trainer *trainer, const char *checkpoint) {
    dpmf_status status = DPMF_OK;
    while (status == DPMF_OK && dpmf_trainer_step(trainer) < dpmf_trainer_steps(trainer)) {
        status = dpmf_trainer_next(trainer);
        if (status == DPMF_OK && dpmf_trainer_step(trainer) % EPOCH == 0)
            status = dpmf_trainer_save(trainer, checkpoint);
    }
    return status;
}

int main(void) {
    dpmf_dataset *data = NULL, *test = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_sampler *sampler = NULL;
    dpmf_trainer *trainer = NULL;
    dpmf_trainer_options options = dpmf_trainer_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    char checkpoint[64], order[32];
    double accuracy = 0, loss = 0;
    snprintf(checkpoint, sizeof checkpoint, "train.%ld.checkpoint",
             (long)getpid()); /* a real run keeps it, and the key */
    snprintf(order, sizeof order, "cyclic:%d", BATCH);
    options.learning_rate = 4.0;
    dpmf_status status = make_data(1, EXAMPLES, &data);
    if (status == DPMF_OK) status = make_data(2, TEST, &test);
    if (status == DPMF_OK) status = make_mechanism(&mechanism);
    if (status == DPMF_OK) status = dpmf_key_create(key); /* a real run: dpmf_key_load("run.key", 1, key) */
    if (status == DPMF_OK) status = dpmf_sampler_create(order, EXAMPLES, STEPS, key, NULL, &sampler);
    if (status == DPMF_OK) status = dpmf_trainer_create(data, mechanism, sampler, key, &options, &trainer);
    dpmf_key_wipe(key);
    if (status == DPMF_OK) status = train(trainer, checkpoint); /* after a stop: dpmf_trainer_load first */
    if (status == DPMF_OK) status = dpmf_trainer_evaluate(trainer, test, &accuracy, &loss);
    if (status == DPMF_OK)
        printf("%d private steps at epsilon = %g, delta = %g: accuracy %.3f, loss %.3f\n", STEPS, EPSILON, DELTA,
               accuracy, loss);
    else
        fprintf(stderr, "%s\n", dpmf_last_error());
    dpmf_trainer_free(trainer);
    dpmf_sampler_free(sampler);
    dpmf_mechanism_free(mechanism);
    dpmf_dataset_free(test);
    dpmf_dataset_free(data);
    unlink(checkpoint);
    return status == DPMF_OK ? 0 : 1;
}
