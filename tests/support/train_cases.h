/* SPDX-License-Identifier: Apache-2.0 */
/* Small training runs for the tests: synthetic data, a mechanism, a sampler and a trainer in one place. */
#ifndef DPMF_TESTS_TRAIN_CASES_H
#define DPMF_TESTS_TRAIN_CASES_H

#include "support/check.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

enum { CASE_EXAMPLES = 150, CASE_FEATURES = 37, CASE_CLASSES = 5, CASE_USERS = 23 };

/* Features in [-1, 1); a label that a few of them explain; users with 1 to a dozen examples. */
static inline dpmf_dataset *case_data(uint64_t seed) {
    static float x[CASE_EXAMPLES * CASE_FEATURES];
    static int32_t label[CASE_EXAMPLES];
    static int64_t unit[CASE_EXAMPLES];
    dpmf_dataset *data = NULL;
    for (int i = 0; i < CASE_EXAMPLES; i++) {
        double sum = 0;
        for (int j = 0; j < CASE_FEATURES; j++)
            x[i * CASE_FEATURES + j] = (float)check_random(&seed);
        for (int j = 0; j < 3; j++)
            sum += (double)x[i * CASE_FEATURES + j] + 1;
        label[i] = (int32_t)(sum * CASE_CLASSES / 6);
        unit[i] = i < CASE_USERS ? i : (int64_t)((check_random(&seed) + 1) * 0.5 * (CASE_USERS - 1));
    }
    check_ok(dpmf_dataset_create(CASE_EXAMPLES, CASE_FEATURES, CASE_CLASSES, x, label, unit, &data));
    return data;
}

typedef struct case_run {
    const dpmf_dataset *data;
    dpmf_mechanism *mechanism;
    dpmf_sampler *sampler;
    dpmf_trainer *trainer;
    uint8_t key[DPMF_KEY_SIZE];
} case_run;

/* The settings of a run; the zeros mean: identity, prefix sums, single participation, key 1. */
typedef struct case_plan {
    const char *family, *workload, *participation, *sampling, *sampler;
    int64_t steps, bands;
    uint64_t key;
    double sigma;
    dpmf_trainer_options options;
} case_plan;

static inline case_plan case_defaults(void) {
    case_plan p = {.family = "identity",
                   .workload = "prefix",
                   .participation = "cyclic:4,5",
                   .sampler = "cyclic:30",
                   .steps = 20,
                   .key = 1,
                   .sigma = 0.7,
                   .options = dpmf_trainer_options_defaults()};
    p.options.run.threads = 1;
    return p;
}

static inline void case_mechanism(const case_plan *p, dpmf_mechanism **out) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy_options shape = dpmf_strategy_options_defaults();
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    shape.bands = p->bands;
    about.sigma = p->sigma;
    if (p->sampling != NULL) check_ok(dpmf_sampling_parse(p->sampling, &about.sampling));
    check_ok(dpmf_workload_parse(p->workload, p->steps, &workload));
    check_ok(dpmf_participation_parse(p->participation, p->steps, &participation));
    if (strcmp(p->family, "blt") == 0) {
        dpmf_optimize_options how = dpmf_optimize_options_defaults();
        dpmf_optimization found;
        how.buffers = 2;
        how.tolerance = 1e-3;
        how.run.threads = 1;
        check_ok(dpmf_optimize("blt", workload, participation, &how, &strategy, &found));
    } else {
        check_ok(dpmf_strategy_create(p->family, workload, &shape, &strategy));
    }
    check_ok(dpmf_mechanism_create(workload, participation, strategy, &about, out));
    dpmf_participation_free(participation);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
}

/* Everything except the trainer, whose creation may be under test. */
static inline case_run case_begin(const dpmf_dataset *data, const case_plan *p) {
    case_run r = {.data = data};
    case_mechanism(p, &r.mechanism);
    check_ok(dpmf_key_testing(p->key, r.key));
    check_ok(dpmf_sampler_create(p->sampler, p->options.by_unit ? dpmf_dataset_units(data) : dpmf_dataset_count(data),
                                 p->steps, r.key, NULL, &r.sampler));
    return r;
}

static inline case_run case_open(const dpmf_dataset *data, const case_plan *p) {
    case_run r = case_begin(data, p);
    check_ok(dpmf_trainer_create(data, r.mechanism, r.sampler, r.key, &p->options, &r.trainer));
    return r;
}

static inline void case_steps(case_run *r, int64_t steps) {
    for (int64_t t = 0; t < steps; t++)
        check_ok(dpmf_trainer_next(r->trainer));
}

static inline void case_close(case_run *r) {
    dpmf_trainer_free(r->trainer);
    dpmf_sampler_free(r->sampler);
    dpmf_mechanism_free(r->mechanism);
}

static inline void check_same_weights(const case_run *a, const case_run *b) {
    assert_int_equal(dpmf_trainer_step(a->trainer), dpmf_trainer_step(b->trainer));
    assert_memory_equal(a->trainer->weights, b->trainer->weights, (size_t)a->trainer->model.dim * sizeof(float));
}

#endif
