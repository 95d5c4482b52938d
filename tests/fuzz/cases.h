/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key, the mechanisms and the run of the corpus's secret files, for make_corpus, which writes them, and for the
 * targets, which open them. Also a file for the reader under test, in memory where the system allows it.
 */
#ifndef DPMF_TESTS_FUZZ_CASES_H
#define DPMF_TESTS_FUZZ_CASES_H

#include "fuzz.h"

#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"
#include "dpmf_train.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CASES = 5, CASE_STEPS = 12, CASE_DIM = 7, CASE_UNITS = 9, CASE_SAMPLERS = 3 };

/* A call that has no reason to fail. */
#define MUST(call) REQUIRE((call) == DPMF_OK)

static inline void case_key(uint8_t key[DPMF_KEY_SIZE]) {
    MUST(dpmf_key_testing(20, key));
}

static inline dpmf_mechanism *case_made(const char *family, int64_t bands, const char *pattern) {
    dpmf_strategy_options shape = dpmf_strategy_options_defaults();
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_workload *workload = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    shape.bands = bands;
    about.sigma = 0.5;
    MUST(dpmf_workload_parse("prefix", CASE_STEPS, &workload));
    MUST(dpmf_participation_parse(pattern, CASE_STEPS, &participation));
    MUST(dpmf_strategy_create(family, workload, &shape, &strategy));
    MUST(dpmf_mechanism_create(workload, participation, strategy, &about, &mechanism));
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return mechanism;
}

/* One for each kind of buffers that a stream keeps. */
static inline dpmf_mechanism *case_mechanism(int which) {
    static const char *const family[CASES] = {"bsr", "identity", "tree", "toeplitz", "unbounded"};
    return case_made(family[which], which == 0 ? 3 : 0, "single");
}

static inline dpmf_noise *case_noise(const dpmf_mechanism *mechanism, const char *state) {
    dpmf_noise_options options = dpmf_noise_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_noise *noise = NULL;
    case_key(key);
    options.state = state;
    options.run.threads = 1;
    MUST(dpmf_noise_create(mechanism, CASE_DIM, 1.0, key, &options, &noise));
    return noise;
}

/* Kinds that keep a past, and one that does not. */
static inline dpmf_sampler *case_sampler(int which) {
    static const char *const text[CASE_SAMPLERS] = {"cyclic:3", "min-sep:0.3,2", "scheduled:2,3,2"};
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_sampler *sampler = NULL;
    case_key(key);
    MUST(dpmf_sampler_create(text[which], CASE_UNITS, CASE_STEPS, key, NULL, &sampler));
    return sampler;
}

/* A training run small enough for a million of them. */
typedef struct case_training {
    dpmf_dataset *data;
    dpmf_mechanism *mechanism;
    dpmf_sampler *sampler;
    dpmf_trainer *trainer;
} case_training;

static inline case_training case_trainer(void) {
    float x[CASE_UNITS * 2];
    int32_t label[CASE_UNITS];
    uint8_t key[DPMF_KEY_SIZE];
    case_training c = {0};
    dpmf_trainer_options options = dpmf_trainer_options_defaults();
    for (int i = 0; i < CASE_UNITS; i++) {
        x[2 * i] = (float)(i % 4);
        x[2 * i + 1] = (float)(i % 3) - 1;
        label[i] = i % 2;
    }
    case_key(key);
    options.momentum = 0.5;
    options.run.threads = 1;
    MUST(dpmf_dataset_create(CASE_UNITS, 2, 2, x, label, NULL, &c.data));
    c.sampler = case_sampler(0);
    c.mechanism = case_made("bsr", 3, "cyclic:4,3");
    MUST(dpmf_trainer_create(c.data, c.mechanism, c.sampler, key, &options, &c.trainer));
    return c;
}

/* ---- a file of this process ---- */

/* Mode 0600, with these bytes, always the same one; removed at the end. */
static char fuzz_path[64];
static void fuzz_remove(void) {
    unlink(fuzz_path);
}

static inline const char *fuzz_file(const uint8_t *bytes, size_t size) {
    static int file = -1;
    if (file < 0) {
        const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
        snprintf(fuzz_path, sizeof fuzz_path, "%s/dpmf-fuzz-%ld", place, (long)getpid());
        file = open(fuzz_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        REQUIRE(file >= 0);
        atexit(fuzz_remove);
    }
    REQUIRE(ftruncate(file, 0) == 0 && pwrite(file, bytes, size, 0) == (ssize_t)size);
    return fuzz_path;
}

/* A refusal has a message of one line, and its kind is one that a file can cause. */
static inline void fuzz_refused(dpmf_status status) {
    REQUIRE(status == DPMF_ERROR_FORMAT || status == DPMF_ERROR_MEMORY || status == DPMF_ERROR_ARGUMENT ||
            status == DPMF_ERROR_UNSUPPORTED || status == DPMF_ERROR_IO);
    REQUIRE(dpmf_last_error()[0] != '\0' && strchr(dpmf_last_error(), '\n') == NULL);
}

#endif
