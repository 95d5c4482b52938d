/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf train: private training of a small model, from data to accuracy. */
#include "progress.h"
#include "train.h"
#include "verbs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int check_usage(const arguments *given) {
    const bool key = option_given(given, OPTION_KEY_FILE), seed = option_given(given, OPTION_TESTING_SEED);
    const char *unit = option_text(given, OPTION_UNIT);
    char shown[SHOWN];
    if (strcmp(unit, "example") != 0 && strcmp(unit, "user") != 0)
        return fail(EXIT_USAGE, "--unit %s: train accepts example and user", show(unit, shown));
    if (key && seed) return fail(EXIT_USAGE, "--key-file and --testing-seed: only one of them gives the key");
    if (option_given(given, OPTION_CHECKPOINT) && !key && !seed)
        return fail(EXIT_USAGE,
                    "--checkpoint needs --key-file: without it the key is fresh, and nothing can be resumed");
    if (option_given(given, OPTION_EVERY) && !option_given(given, OPTION_CHECKPOINT))
        return fail(EXIT_USAGE, "--every needs --checkpoint FILE");
    if (option_is(given, OPTION_OPTIMIZER, "adam") && option_given(given, OPTION_MOMENTUM))
        return fail(EXIT_USAGE, "--momentum belongs to --optimizer sgd");
    return 0;
}

static dpmf_status get_key(const arguments *given, uint8_t key[DPMF_KEY_SIZE]) {
    if (option_given(given, OPTION_TESTING_SEED))
        return dpmf_key_testing((uint64_t)given->count[OPTION_TESTING_SEED], key);
    if (option_given(given, OPTION_KEY_FILE)) return dpmf_key_load(given->text[OPTION_KEY_FILE], 1, key);
    return dpmf_key_create(key);
}

static void read_options(training *t) {
    const arguments *given = t->given;
    dpmf_trainer_options *o = &t->how;
    *o = dpmf_trainer_options_defaults();
    o->hidden = t->hidden;
    o->noiseless = option_given(given, OPTION_NOISELESS);
    o->clip = o->noiseless && !option_given(given, OPTION_CLIP) ? INFINITY : given->number[OPTION_CLIP];
    o->zero_above = given->number[OPTION_ZERO_ABOVE];
    o->by_unit = option_is(given, OPTION_UNIT, "user");
    o->optimizer = option_is(given, OPTION_OPTIMIZER, "adam") ? DPMF_OPTIMIZER_ADAM : DPMF_OPTIMIZER_SGD;
    o->learning_rate = given->number[OPTION_LEARNING_RATE];
    o->momentum = given->number[OPTION_MOMENTUM];
    o->decay = given->number[OPTION_DECAY];
    o->schedule = t->schedule;
    o->seed = (uint64_t)given->count[OPTION_SEED];
    o->run = run_with((int)given->count[OPTION_THREADS]);
}

/* A checkpoint that is there is gone on from; one of another run is refused. */
static int resume(training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    if (path == NULL || (access(path, F_OK) != 0 && errno == ENOENT)) return 0;
    dpmf_status status = dpmf_trainer_load(t->trainer, path);
    if (status != DPMF_OK) return fail_status(status, NULL);
    t->resumed_at = dpmf_trainer_step(t->trainer);
    return 0;
}

static int prepare(training *t) {
    int code = training_data(t);
    if (code == 0) code = training_mechanism(t);
    if (code != 0) return code;
    read_options(t);
    dpmf_status status = get_key(t->given, t->key);
    if (status != DPMF_OK) return fail_status(status, NULL);
    code = training_sampler(t);
    if (code != 0) return code;
    status = dpmf_trainer_create(t->train, t->mechanism, t->sampler, t->key, &t->how, &t->trainer);
    dpmf_key_wipe(t->key);
    if (status != DPMF_OK) return fail_status(status, NULL);
    /* Test data that do not fit are better found now than after the last step. */
    status = dpmf_trainer_evaluate(t->trainer, t->test, NULL, NULL);
    return status == DPMF_OK ? resume(t) : fail_status(DPMF_ERROR_FORMAT, NULL);
}

static dpmf_status save(const training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    return path != NULL ? dpmf_trainer_save(t->trainer, path) : DPMF_OK;
}

/* A run that is told to stop keeps what it has. */
static int run_steps(training *t) {
    const int64_t every = t->given->count[OPTION_EVERY], begun = dpmf_trainer_step(t->trainer);
    dpmf_status status = DPMF_OK;
    while (status == DPMF_OK && dpmf_trainer_step(t->trainer) < t->steps) {
        status = dpmf_trainer_next(t->trainer);
        if (status == DPMF_OK && dpmf_trainer_step(t->trainer) % every == 0) status = save(t);
    }
    if (status == DPMF_ERROR_CANCELLED && save(t) != DPMF_OK) return fail_status(DPMF_ERROR_IO, NULL);
    if (status == DPMF_OK && begun < t->steps && t->steps % every != 0) status = save(t);
    progress_clear();
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_NUMERICAL; /* nothing in the command is to blame */
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

static int write_weights(const training *t) {
    dpmf_array weights = {.dimensions = 1, .shape = {t->dim, 1}};
    const float *from = dpmf_trainer_weights(t->trainer);
    if (!option_given(t->given, OPTION_OUT)) return 0;
    weights.values = allocate(t->dim, sizeof(double));
    if (weights.values == NULL) return fail_memory();
    for (int64_t i = 0; i < t->dim; ++i)
        weights.values[i] = (double)from[i];
    dpmf_status status = dpmf_array_save(t->given->text[OPTION_OUT], &weights);
    free(weights.values);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

static int train(training *t) {
    int code = prepare(t);
    if (code != 0) return code;
    const double begun = now();
    code = run_steps(t);
    t->seconds = now() - begun;
    if (code != 0) return code;
    dpmf_status status = dpmf_trainer_evaluate(t->trainer, t->test, &t->accuracy, &t->loss);
    if (status != DPMF_OK) return fail_status(status, NULL);
    code = write_weights(t);
    if (code == 0) code = training_print(t);
    if (code != 0) return code;
    if (t->how.noiseless) fail(0, "not private: no noise was added");
    if (!t->how.noiseless && option_given(t->given, OPTION_TESTING_SEED))
        fail(0, "not private: anybody can compute the key of a testing seed");
    return 0;
}

int cmd_train(const arguments *given) {
    training t = {.given = given};
    int code = check_usage(given);
    if (code == 0) code = train(&t);
    dpmf_key_wipe(t.key);
    dpmf_trainer_free(t.trainer);
    dpmf_sampler_free(t.sampler);
    dpmf_design_free(t.design);
    dpmf_mechanism_free(t.own);
    dpmf_workload_free(t.workload);
    dpmf_dataset_free(t.train);
    dpmf_dataset_free(t.test);
    free(t.schedule);
    return code;
}
