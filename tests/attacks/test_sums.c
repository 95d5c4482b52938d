/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the sum of a batch, through the public trainer: the change by one example beyond its clip norm, or what it
 * reveals by ending the run.
 */
#include "support/check.h"
#include "train/train.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct attack {
    dpmf_workload *workload;
    dpmf_strategy *strategy;
    dpmf_participation *participation;
    dpmf_mechanism *mechanism;
    dpmf_sampler *sampler;
    dpmf_trainer *trainer;
} attack;

static attack open_attack(const dpmf_dataset *data, int64_t steps, int64_t units, const char *sampler,
                          const dpmf_trainer_options *options) {
    attack a = {0};
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    about.sigma = 1;
    check_ok(dpmf_key_testing(1, key));
    check_ok(dpmf_workload_parse("prefix", steps, &a.workload));
    check_ok(dpmf_strategy_create("identity", a.workload, NULL, &a.strategy));
    check_ok(dpmf_participation_create(DPMF_PARTICIPATION_FULL, steps, steps, 1, &a.participation));
    check_ok(dpmf_mechanism_create(a.workload, a.participation, a.strategy, &about, &a.mechanism));
    check_ok(dpmf_sampler_create(sampler, units, steps, key, NULL, &a.sampler));
    check_ok(dpmf_trainer_create(data, a.mechanism, a.sampler, key, options, &a.trainer));
    return a;
}

static void close_attack(attack *a) {
    dpmf_trainer_free(a->trainer);
    dpmf_sampler_free(a->sampler);
    dpmf_mechanism_free(a->mechanism);
    dpmf_participation_free(a->participation);
    dpmf_strategy_free(a->strategy);
    dpmf_workload_free(a->workload);
}

/* ---- rounding of the batch sum ---- */

enum { FEATURES = 16, BASE = 8191, PAIRS = 6000, EXAMPLES = BASE + 2 + 2 * PAIRS };
static const double CLIP = 1.5;

static void set_row(float *x, int64_t example, double value) {
    for (int j = 0; j < FEATURES; j++)
        x[example * FEATURES + j] = (float)value;
}

/* One step from weights 0, where the derivatives are +-1/2: minus the sum over the batch, divided by its size. */
static void step_of(const float *x, int unit_is_user, float *weights, int64_t *exact, double *step) {
    static int32_t label[EXAMPLES];
    static int64_t unit[EXAMPLES];
    dpmf_dataset *data = NULL;
    dpmf_trainer_options o = dpmf_trainer_options_defaults();
    char sampler[32];
    o.clip = CLIP;
    o.learning_rate = 1;
    o.noiseless = 1;
    o.by_unit = unit_is_user;
    for (int i = 0; i < EXAMPLES; i++) {
        label[i] = 1;
        unit[i] = i;
    }
    check_ok(dpmf_dataset_create(EXAMPLES, FEATURES, 2, x, label, unit_is_user ? unit : NULL, &data));
    snprintf(sampler, sizeof sampler, "cyclic:%d", (int)EXAMPLES);
    attack a = open_attack(data, 1, EXAMPLES, sampler, &o);
    check_ok(dpmf_trainer_next(a.trainer));
    memcpy(weights, dpmf_trainer_weights(a.trainer), 2 * (FEATURES + 1) * sizeof *weights);
    memcpy(exact, a.trainer->gradient->sums, 2 * (FEATURES + 1) * sizeof *exact);
    *step = a.trainer->gradient->grid.step;
    close_attack(&a);
    dpmf_dataset_free(data);
}

/*
 * The attacker holds one example. The others of the batch bring a coordinate's sum to just below 1024 and continue with
 * pairs of +1.49 u and -0.99 u, u the distance of floats there. Without the attacker's example the pairs cancel: they
 * round to +u and -u. With it the sum passes 1024, where floats are 2u apart, and each pair adds 2u. Before, in float
 * sums: the sums of the two data sets differed by 4.9 at 20 000 examples and clip 1, 4.9 here at clip 1.5. Promised
 * now: by at most the clip norm, exactly, in any batch.
 */
static void nudge(int unit_is_user) {
    static float x[EXAMPLES * FEATURES];
    float with[2 * (FEATURES + 1)], without[2 * (FEATURES + 1)];
    int64_t exact[2][2 * (FEATURES + 1)];
    const double u = 0x1p-14;
    double step = 0, released = 0, most = 0;
    __extension__ unsigned __int128 sum = 0;
    for (int i = 0; i < BASE; i++)
        set_row(x, i, 0.25);
    set_row(x, BASE, 0.125);
    for (int i = 0; i < PAIRS; i++) {
        set_row(x, BASE + 2 + 2 * i, 2 * 1.49 * u);
        set_row(x, BASE + 2 + 2 * i + 1, -2 * 0.99 * u);
    }
    set_row(x, BASE + 1, 0.25); /* the attacker's */
    step_of(x, unit_is_user, with, exact[0], &step);
    set_row(x, BASE + 1, NAN); /* zero-out: it adds nothing */
    step_of(x, unit_is_user, without, exact[1], &step);
    for (int i = 0; i < 2 * (FEATURES + 1); i++) {
        const int64_t difference = exact[0][i] - exact[1][i];
        sum += (unsigned __int128)((__int128)difference * difference);
        released += pow(EXAMPLES * ((double)with[i] - (double)without[i]), 2);
        most = fmax(most, fabs(EXAMPLES * (double)with[i]));
    }
    const uint64_t radius = (uint64_t)floor(CLIP / step);
    assert_true(sum <= (unsigned __int128)radius * radius);
    /* What is seen of the weights, rounded to float after the sum. */
    assert_true(sqrt(released) <= CLIP + sqrt(2.0 * (FEATURES + 1)) * most * 0x1p-23);
}

static void test_rounding_of_the_sum(void **unused) {
    (void)unused;
    nudge(0);
    nudge(1);
}

/* ---- gradients that are not finite ---- */

/* A run over a data set whose example 7 has the given features; its weights, and how many steps it took. */
static int64_t train_with(float value, int noiseless, int64_t hidden, float *weights, int64_t *dim) {
    enum { N = 40, D = 3 };
    float x[N * D];
    int32_t label[N];
    uint64_t seed = 5;
    dpmf_dataset *data = NULL;
    dpmf_trainer_options o = dpmf_trainer_options_defaults();
    o.noiseless = noiseless;
    o.hidden = hidden;
    for (int i = 0; i < N * D; i++)
        x[i] = i / D == 7 ? value : (float)check_random(&seed);
    for (int i = 0; i < N; i++)
        label[i] = i % 3;
    check_ok(dpmf_dataset_create(N, D, 3, x, label, NULL, &data));
    attack a = open_attack(data, 8, N, "cyclic:10", &o);
    while (dpmf_trainer_step(a.trainer) < 8 && dpmf_trainer_next(a.trainer) == DPMF_OK)
        ;
    const int64_t taken = dpmf_trainer_step(a.trainer);
    *dim = dpmf_trainer_dim(data, hidden);
    memcpy(weights, dpmf_trainer_weights(a.trainer), (size_t)*dim * sizeof *weights);
    close_attack(&a);
    dpmf_dataset_free(data);
    return taken;
}

/*
 * The attacker's example has features of 3e38, infinity or NaN, so that its gradient is not finite. Before, the run
 * ended in the step of its batch: the end revealed that the example was there, and its time revealed the batch.
 * Promised now: such an example adds 0, and the run continues.
 */
static void test_a_unit_that_is_not_finite_adds_nothing(void **unused) {
    const float hostile[] = {NAN, INFINITY, -INFINITY, 3e38f, 1e38f, FLT_TRUE_MIN, 0};
    float found[7][64], noisy[64];
    int64_t dim = 0;
    (void)unused;
    for (int64_t hidden = 0; hidden <= 4; hidden += 4) {
        for (int i = 0; i < 7; i++) {
            assert_int_equal(train_with(hostile[i], 1, hidden, found[i], &dim), 8);
            assert_int_equal(train_with(hostile[i], 0, hidden, noisy, &dim), 8);
            for (int64_t k = 0; k < dim; k++)
                assert_true(isfinite(found[i][k]) && isfinite(noisy[k]));
        }
        assert_memory_equal(found[0], found[1], (size_t)dim * sizeof(float));
        assert_memory_equal(found[0], found[2], (size_t)dim * sizeof(float));
    }
}

/* ---- tiny clip norms ---- */

/*
 * The attacker asks for a clip norm so small that arithmetic on it leaves its range: at 1e-24, 24 times the clip norm was
 * added where norms were kept in float. Promised now: from 2^-100 on, what one example adds is at most the clip norm and
 * nearly all of it; below, a clear refusal.
 */
static void test_a_tiny_clip_norm_is_refused(void **unused) {
    const double clips[] = {1e-24, 1e-30, 0x1p-100};
    const float x[2] = {1, 0};
    const int32_t label[2] = {0, 1};
    dpmf_dataset *data = NULL;
    dpmf_trainer_options o = dpmf_trainer_options_defaults();
    (void)unused;
    o.noiseless = 1;
    o.learning_rate = 1;
    check_ok(dpmf_dataset_create(2, 1, 2, x, label, NULL, &data));
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        o.clip = clips[i];
        attack a = open_attack(data, 2, 2, "cyclic:1", &o);
        check_ok(dpmf_trainer_next(a.trainer));
        for (int64_t k = 0; k < 4; k++)
            sum += pow((double)dpmf_trainer_weights(a.trainer)[k] / clips[i], 2);
        assert_true(sqrt(sum) <= 1 + 1e-6 && sqrt(sum) > 1 - 1e-4);
        close_attack(&a);
    }
    attack a = open_attack(data, 2, 2, "cyclic:1", &o);
    dpmf_trainer *none = NULL;
    uint8_t key[DPMF_KEY_SIZE] = {1};
    o.clip = 1e-31;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_create(data, a.mechanism, a.sampler, key, &o, &none));
    check_message("clip = 1e-31, accepted: 7.88861e-31 to");
    close_attack(&a);
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding_of_the_sum),
        cmocka_unit_test(test_a_unit_that_is_not_finite_adds_nothing),
        cmocka_unit_test(test_a_tiny_clip_norm_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
