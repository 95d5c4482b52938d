/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf train: private training of a small model, from data to accuracy. */
#include "options/verbs.h"
#include "progress.h"
#include "train/train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const training_team *training_together = NULL;

/* Where several train together, what one could not do ends all of them. */
static int all(int code) {
    return training_together != NULL ? training_together->all(code) : code;
}

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

dpmf_status training_key(const training *t, uint8_t key[DPMF_KEY_SIZE]) {
    const arguments *given = t->given;
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
    if (training_together != NULL) {
        o->part = training_together->part;
        o->parts = training_together->parts;
        o->reduce = training_together->reduce;
    }
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

static int get_mechanism(training *t) {
    return training_together != NULL ? training_together->mechanism(t) : training_mechanism(t);
}

static int get_key(training *t) {
    if (training_together != NULL) return training_together->key(t);
    dpmf_status status = training_key(t, t->key);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

static int open_trainer(training *t) {
    dpmf_status status = dpmf_trainer_create(t->train, t->mechanism, t->sampler, t->key, &t->how, &t->trainer);
    dpmf_key_wipe(t->key);
    if (status != DPMF_OK) return fail_status(status, NULL);
    /* Test data that do not fit are better found now than after the last step. */
    status = dpmf_trainer_evaluate(t->trainer, t->test, NULL, NULL);
    return status == DPMF_OK ? 0 : fail_status(DPMF_ERROR_FORMAT, NULL);
}

static int prepare_training(training *t) {
    const training_team *team = training_together;
    int code = all(training_data(t));
    if (code == 0) code = get_mechanism(t);
    if (code != 0) return code;
    read_options(t);
    code = get_key(t);
    if (code == 0) code = all(training_sampler(t));
    if (code == 0 && team != NULL) code = team->agree(t);
    if (code == 0) code = all(open_trainer(t));
    if (code != 0) return code;
    return team != NULL ? team->resume(t) : resume(t);
}

static int save_checkpoint(training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    if (path == NULL) return 0;
    if (training_together != NULL) return training_together->save(t);
    dpmf_status status = dpmf_trainer_save(t->trainer, path);
    return status == DPMF_OK ? 0 : fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_NUMERICAL : status, NULL);
}

static dpmf_status take_step(training *t) {
    dpmf_status status = dpmf_trainer_next(t->trainer);
    return training_together != NULL ? training_together->step(status) : status;
}

/* A run that is told to stop keeps what it has. */
static int run_steps(training *t) {
    const int64_t every = t->given->count[OPTION_EVERY], begun = dpmf_trainer_step(t->trainer);
    dpmf_status status = DPMF_OK;
    int code = 0;
    while (status == DPMF_OK && code == 0 && dpmf_trainer_step(t->trainer) < t->steps) {
        status = take_step(t);
        if (status == DPMF_OK && dpmf_trainer_step(t->trainer) % every == 0) code = save_checkpoint(t);
    }
    if (status == DPMF_ERROR_CANCELLED) code = save_checkpoint(t);
    if (status == DPMF_OK && code == 0 && begun < t->steps && t->steps % every != 0) code = save_checkpoint(t);
    progress_clear();
    if (code != 0) return code;
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
    int code = prepare_training(t);
    if (code != 0) return code;
    const double begun = now();
    code = run_steps(t);
    t->seconds = now() - begun;
    if (code == 0 && training_together != NULL) code = training_together->finish(t);
    if (code != 0) return code;
    if (training_together != NULL && training_together->part != 0) return 0; /* one of them speaks for all */
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
