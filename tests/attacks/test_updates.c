/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on a round of federated averaging: one user's examples and the local training on them are chosen to move the released
 * sum by more than the clip norm, or to end the run. Promised: by at most the clip norm, in whole steps of the grid, exactly.
 */
#include "support/check.h"
#include "train/train.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { USERS = 12, EACH = 5, MOST = 1000, FEATURES = 6, CLASSES = 3, EXAMPLES = (USERS - 1) * EACH + MOST };

static float x[EXAMPLES * FEATURES];
static int32_t label[EXAMPLES];
static int64_t unit[EXAMPLES];

/* The honest users 1 ..., and user 0 with `count` examples, whose features a kind of attack makes. */
static dpmf_dataset *data_with(int64_t count, int kind, uint64_t seed) {
    const float words[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, FLT_MAX, FLT_TRUE_MIN, 0, 1e19f, 1};
    dpmf_dataset *data = NULL;
    uint64_t honest = 5;
    int64_t at = 0;
    for (int64_t u = 1; u < USERS; u++)
        for (int i = 0; i < EACH; i++, at++) {
            for (int j = 0; j < FEATURES; j++)
                x[at * FEATURES + j] = (float)check_random(&honest);
            label[at] = (int32_t)(at % CLASSES);
            unit[at] = u;
        }
    for (int64_t i = 0; i < count; i++, at++) {
        for (int j = 0; j < FEATURES; j++) {
            const double random = check_random(&seed);
            const float word = words[(int)((check_random(&seed) + 1) * 4.999)];
            x[at * FEATURES + j] = kind == 0   ? NAN                   /* zero-out: it adds nothing */
                                   : kind == 1 ? (float)random         /* as the others */
                                   : kind == 2 ? 1e30f * (float)random /* overflows in local training */
                                   : kind == 3 ? (float)ldexp(random, (int)(60 * check_random(&seed))) /* any size */
                                               : word;
        }
        label[at] = kind == 2 ? (int32_t)(i % 2) : (int32_t)((check_random(&seed) + 1) * 0.4999 * CLASSES);
        unit[at] = 0;
    }
    check_ok(dpmf_dataset_create(at, FEATURES, CLASSES, x, label, unit, &data));
    return data;
}

/* The sum of a round of all users. */
static void sum_round(const dpmf_dataset *data, int64_t hidden, train_clip clip, const float *w, int64_t *sums,
                      double *radius) {
    base_pool *pool = NULL;
    train_model model;
    train_gradient *g = NULL;
    int64_t batch[USERS];
    for (int64_t u = 0; u < USERS; u++)
        batch[u] = u;
    check_ok(train_model_of(FEATURES, hidden, CLASSES, &model));
    check_ok(base_pool_create(1, &pool));
    check_ok(train_gradient_create(data, &model, clip, pool, &g));
    check_ok(train_gradient_sum(g, w, USERS, batch, 0, 1));
    memcpy(sums, g->sums, (size_t)model.dim * sizeof *sums);
    *radius = g->grid.radius;
    assert_true(g->grid.radius * g->grid.step <= clip.clip);
    train_gradient_free(g);
    base_pool_free(pool);
}

static void test_a_user_moves_the_sum_of_a_round_by_at_most_the_clip(void **unused) {
    const double rates[] = {1e-3, 1, 1e12, 1e29}, gammas[] = {0x1p-100, 1e-6, 0.01, 1, 1e20};
    const int64_t sizes[] = {1, 7, MOST};
    int64_t with[64], without[64];
    float w[64];
    uint64_t seed = 3;
    int nearly = 0, nothing = 0, cases = 0;
    (void)unused;
    for (int c = 0; c < 240; c++) {
        const int64_t hidden = c % 2 ? 3 : 0, count = sizes[c % 3];
        const train_local local = {
            .steps = c % 5 == 0 ? 1 : 6, .rate = rates[c % 4], .batch = c % 7 == 0 ? 0 : 1 + c % 9};
        train_clip clip = {.clip = c % 11 == 0 ? 1e-20 : 1.5, .by_unit = 1, .units = USERS, .local = local};
        train_model model;
        double radius = 0;
        __extension__ unsigned __int128 sum = 0;
        if (c % 13 < 5) clip.gamma = gammas[c % 13]; /* normalised: small updates are made longer */
        if (c % 3 == 0) clip.zero_above = 1e3, clip.zero_largest = 1;
        check_ok(train_model_of(FEATURES, hidden, CLASSES, &model));
        assert_true(model.dim <= 64);
        for (int64_t i = 0; i < model.dim; i++)
            w[i] = (float)check_random(&seed);
        dpmf_dataset *attack = data_with(count, 1 + c % 4, seed), *none = data_with(count, 0, seed);
        sum_round(attack, hidden, clip, w, with, &radius);
        sum_round(none, hidden, clip, w, without, &radius);
        for (int64_t i = 0; i < model.dim; i++) {
            const int64_t difference = with[i] - without[i];
            sum += (unsigned __int128)((__int128)difference * difference);
        }
        assert_true(sum <= (unsigned __int128)radius * (unsigned __int128)radius);
        nearly += (double)sum > 0.999 * radius * radius;
        nothing += sum == 0;
        cases++;
        dpmf_dataset_free(attack);
        dpmf_dataset_free(none);
    }
    assert_int_equal(cases, 240);
    assert_true(nearly > 30 && nothing > 30); /* the bound is reached, and hostile users are left out */
}

/* A whole run: the hostile user takes part in every round, and no call fails for it. */
static int64_t rounds_with(int kind, int64_t count, float *weights, int64_t *dim) {
    dpmf_trainer_options o = dpmf_trainer_options_defaults();
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_participation *participation = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_sampler *sampler = NULL;
    dpmf_trainer *trainer = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_dataset *data = data_with(count, kind, 8);
    about.sigma = 1;
    o.by_unit = 1;
    o.local_steps = 5;
    o.local_rate = 10;
    o.local_batch = 3;
    o.zero_above = 100;
    o.zero_largest = 1;
    o.hidden = 3;
    check_ok(dpmf_key_testing(1, key));
    check_ok(dpmf_workload_parse("prefix", 8, &workload));
    check_ok(dpmf_strategy_create("identity", workload, NULL, &strategy));
    check_ok(dpmf_participation_create(DPMF_PARTICIPATION_FULL, 8, 8, 1, &participation));
    check_ok(dpmf_mechanism_create(workload, participation, strategy, &about, &mechanism));
    check_ok(dpmf_sampler_create("cyclic:12", USERS, 8, key, NULL, &sampler));
    check_ok(dpmf_trainer_create(data, mechanism, sampler, key, &o, &trainer));
    while (dpmf_trainer_step(trainer) < 8 && dpmf_trainer_next(trainer) == DPMF_OK)
        ;
    const int64_t taken = dpmf_trainer_step(trainer);
    *dim = dpmf_trainer_dim(data, o.hidden);
    memcpy(weights, dpmf_trainer_weights(trainer), (size_t)*dim * sizeof *weights);
    dpmf_trainer_free(trainer);
    dpmf_sampler_free(sampler);
    dpmf_mechanism_free(mechanism);
    dpmf_participation_free(participation);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    dpmf_dataset_free(data);
    return taken;
}

static void test_a_hostile_user_ends_no_run(void **unused) {
    float weights[64];
    int64_t dim = 0;
    (void)unused;
    for (int kind = 0; kind < 5; kind++)
        for (int64_t count = 1; count <= MOST; count = count * 30 + 10) {
            assert_int_equal(rounds_with(kind, count, weights, &dim), 8);
            for (int64_t i = 0; i < dim; i++)
                assert_true(isfinite(weights[i]));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_user_moves_the_sum_of_a_round_by_at_most_the_clip),
        cmocka_unit_test(test_a_hostile_user_ends_no_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
