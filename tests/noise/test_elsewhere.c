/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that are made elsewhere: a maker that does nothing but follow the recipes, one number at a time, gets the rows of the
 * library, bit for bit, for every family that has recipes; its checkpoints and state files are the library's.
 */
#include "crypto/crypto.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 12, COUNT = 100, OFFSET = 37, DIM = 1000, MOST = 64 };

typedef struct maker {
    crypto_seed *seed;
    int64_t buffers, made;
    float x[MOST][COUNT];
} maker;

static dpmf_status read_buffers(void *context, int64_t *made, void *buffers) {
    const maker *m = context;
    memcpy(buffers, m->x, sizeof m->x[0] * (size_t)m->buffers);
    *made = m->made;
    return DPMF_OK;
}

static dpmf_status write_buffers(void *context, int64_t step, int64_t made, const void *buffers) {
    maker *m = context;
    assert_true(made >= step);
    if (buffers != NULL) memcpy(m->x, buffers, sizeof m->x[0] * (size_t)m->buffers);
    m->made = made;
    return DPMF_OK;
}

/* ---- the recipes, as dpmf.h states them ---- */

static float seed_of(const maker *m, uint64_t row, int i) {
    float z;
    crypto_seed_fill(m->seed, DPMF_FLOAT32, row, (uint64_t)(OFFSET + i), 1, &z);
    return z;
}

static float mixed(const maker *m, const dpmf_recipe *r, int i) {
    const float *w = r->weight;
    float u = 0;
    for (int64_t k = 0; k < r->seeds; k++)
        u += w[k] * seed_of(m, r->seed[k], i);
    return u;
}

static float fed_back(maker *m, const dpmf_recipe *r, int64_t t, int i) {
    const float *w = r->weight;
    float y = w[0] * seed_of(m, r->seed[0], i);
    for (int64_t p = r->weights - 1; p > 0; p--)
        y += w[p] * m->x[(t - p) % r->buffers][i];
    return m->x[t % r->buffers][i] = y;
}

static float blt(maker *m, const dpmf_recipe *r, int i) {
    const float *w = r->weight;
    const int64_t n = r->buffers;
    float y = seed_of(m, r->seed[0], i);
    for (int64_t j = 0; j < n; j++)
        y -= w[j] * m->x[j][i];
    for (int64_t j = 0; j < n; j++)
        m->x[j][i] = (m->x[j][i] - w[n + j] * m->x[j][i]) + y;
    return w[2 * n] * y;
}

static float tvblt(maker *m, const dpmf_recipe *r, int i) {
    const float *w = r->weight;
    const int64_t n = r->buffers;
    const float z = seed_of(m, r->seed[0], i);
    float y = w[0] * z;
    for (int64_t j = 0; j < n; j++) {
        y += m->x[j][i];
        m->x[j][i] += w[1 + j] * m->x[j][i] + w[1 + n + j] * z;
    }
    return w[1 + 2 * n] * y;
}

static float second(maker *m, const dpmf_recipe *r, int i) {
    const float *w = r->weight;
    const int64_t h = r->buffers / 2;
    const float z = seed_of(m, r->seed[0], i);
    float y = w[0] * z;
    for (int64_t j = 0; j < h; j++) {
        const float c = w[1 + j] * m->x[j][i] + w[1 + h + j] * m->x[h + j][i];
        y += m->x[j][i];
        m->x[j][i] += c + w[1 + 2 * h + j] * z;
        m->x[h + j][i] = c + w[1 + 3 * h + j] * z;
    }
    return w[1 + 4 * h] * y;
}

static float replayed(maker *m, const dpmf_recipe *r, int i) {
    const float *w = (const float *)r->weight + r->seeds;
    const int64_t n = r->buffers;
    const float u = mixed(m, r, i);
    float y = u;
    for (int64_t j = 0; j < n; j++) {
        y += w[j] * m->x[j][i];
        m->x[j][i] += w[n + j] * m->x[j][i] + w[2 * n + j] * u;
    }
    return w[3 * n] * y;
}

static float follow(maker *m, const dpmf_recipe *r, int64_t t, int i) {
    switch (r->kind) {
    case DPMF_RECIPE_SUM:
        return mixed(m, r, i);
    case DPMF_RECIPE_FEEDBACK:
        return fed_back(m, r, t, i);
    case DPMF_RECIPE_BLT:
        return blt(m, r, i);
    case DPMF_RECIPE_TVBLT:
        return tvblt(m, r, i);
    case DPMF_RECIPE_TVBLT_SECOND:
        return second(m, r, i);
    case DPMF_RECIPE_REPLAY:
        return replayed(m, r, i);
    }
    fail();
    return 0;
}

static void make_row(maker *m, dpmf_noise *noise, int64_t t, double scale, float *row) {
    dpmf_recipe recipe;
    if (t < m->made) { /* a checkpoint of the library had it in the ring */
        for (int i = 0; i < COUNT; i++)
            row[i] = (float)scale * m->x[t % m->buffers][i];
        return;
    }
    check_ok(dpmf_noise_recipe(noise, t, &recipe));
    assert_true(recipe.buffers <= MOST);
    m->buffers = recipe.buffers;
    if (t == recipe.start) memset(m->x, 0, sizeof m->x);
    for (int i = 0; i < COUNT; i++)
        row[i] = (float)scale * follow(m, &recipe, t, i);
    m->made = t + 1;
}

static void next_row(maker *m, dpmf_noise *noise, float *row) {
    double scale = 0;
    check_ok(dpmf_noise_reserve(noise, 1.0, &scale));
    make_row(m, noise, dpmf_noise_get(noise).step, scale, row);
    check_ok(dpmf_noise_arrived(noise));
}

/* ---- the two streams ---- */

static dpmf_mechanism *mechanism_of(const char *family, const char *workload, const char *participation, int bands,
                                    int buffers, int shared) {
    static const double scale[] = {0.3, 0.2}, decay[] = {0.9, 0.5};
    dpmf_workload *w = NULL;
    dpmf_participation *p = NULL;
    dpmf_strategy *s = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_strategy_options options = dpmf_strategy_options_defaults();
    dpmf_optimize_options optimize = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    check_ok(dpmf_workload_parse(workload, STEPS, &w));
    if (participation != NULL) check_ok(dpmf_participation_parse(participation, STEPS, &p));
    options.bands = bands;
    optimize.buffers = buffers;
    optimize.shared_seeds = shared;
    if (strcmp(family, "blt") == 0)
        check_ok(dpmf_strategy_create_blt(STEPS, 2, scale, decay, NULL, &s));
    else if (buffers > 0)
        check_ok(dpmf_optimize(family, w, p, &optimize, &s, &found));
    else
        check_ok(dpmf_strategy_create(family, w, &options, &s));
    check_ok(dpmf_mechanism_create(w, p, s, NULL, &m));
    dpmf_strategy_free(s);
    dpmf_participation_free(p);
    dpmf_workload_free(w);
    return m;
}

static dpmf_noise *stream_of(const dpmf_mechanism *mechanism, maker *m, const char *state, int replay) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    const dpmf_noise_maker by = {m, read_buffers, write_buffers};
    dpmf_noise *noise = NULL;
    uint8_t key[DPMF_KEY_SIZE], subkey[DPMF_KEY_SIZE];
    check_ok(dpmf_key_testing(5, key));
    o.offset = OFFSET;
    o.count = COUNT;
    o.state = state;
    o.replay = replay;
    o.uncalibrated = 1;
    if (m != NULL) o.maker = &by;
    check_ok(dpmf_noise_create(mechanism, DIM, 1.5, key, &o, &noise));
    if (m == NULL) return noise;
    memset(m, 0, sizeof *m);
    check_ok(dpmf_noise_subkey(noise, subkey));
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_noise_subkey(noise, subkey)); /* once */
    check_ok(crypto_seed_open(subkey, &m->seed));
    return noise;
}

static void check_same_rows(dpmf_mechanism *mechanism, dpmf_recipe_kind kind) {
    float wanted[COUNT], got[COUNT];
    static maker m;
    dpmf_recipe recipe;
    dpmf_noise *own = stream_of(mechanism, NULL, NULL, 0), *other = stream_of(mechanism, &m, NULL, 0);
    check_ok(dpmf_noise_recipe(other, STEPS - 1, &recipe));
    assert_int_equal(recipe.kind, kind);
    for (int t = 0; t < STEPS; t++) {
        check_ok(dpmf_noise_next(own, wanted));
        next_row(&m, other, got);
        assert_memory_equal(got, wanted, sizeof got);
    }
    crypto_seed_close(m.seed);
    dpmf_noise_free(own);
    dpmf_noise_free(other);
    dpmf_mechanism_free(mechanism);
}

static void test_whoever_follows_the_recipes_gets_the_rows(void **state) {
    (void)state;
    check_same_rows(mechanism_of("identity", "prefix", NULL, 0, 0, 0), DPMF_RECIPE_SUM);
    check_same_rows(mechanism_of("bisr", "prefix", NULL, 3, 0, 0), DPMF_RECIPE_SUM);
    check_same_rows(mechanism_of("toeplitz", "prefix", NULL, 0, 0, 0), DPMF_RECIPE_SUM);
    check_same_rows(mechanism_of("bsr", "momentum:0.9", NULL, 4, 0, 0), DPMF_RECIPE_FEEDBACK);
    check_same_rows(mechanism_of("blt", "prefix", NULL, 0, 2, 0), DPMF_RECIPE_BLT);
    check_same_rows(mechanism_of("tvblt", "prefix", NULL, 0, 3, 0), DPMF_RECIPE_TVBLT);
    check_same_rows(mechanism_of("tvblt", "momentum:0.9", NULL, 0, 2, 0), DPMF_RECIPE_TVBLT_SECOND);
    check_same_rows(mechanism_of("tvblt", "prefix", "cyclic:3,4", 0, 2, 0), DPMF_RECIPE_REPLAY);
    check_same_rows(mechanism_of("tvblt", "prefix", "cyclic:3,4", 0, 2, 2), DPMF_RECIPE_REPLAY);
}

/* Five rows by one, the rest by the other, by way of a checkpoint. */
static void check_checkpoint(dpmf_mechanism *mechanism, int library_first) {
    float wanted[COUNT], got[COUNT];
    static maker m;
    char path[] = "/tmp/dpmf_elsewhere_XXXXXX";
    dpmf_noise *whole = stream_of(mechanism, NULL, NULL, 0), *own = stream_of(mechanism, NULL, NULL, 0),
               *other = stream_of(mechanism, &m, NULL, 0);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (int t = 0; t < STEPS; t++) {
        check_ok(dpmf_noise_next(whole, wanted));
        if (t == 5) {
            check_ok(dpmf_noise_recipe(other, t, &(dpmf_recipe){0}));
            check_ok(dpmf_noise_save(library_first ? own : other, path));
            check_ok(dpmf_noise_load(library_first ? other : own, path));
        }
        if ((t < 5) == library_first)
            check_ok(dpmf_noise_next(own, got));
        else
            next_row(&m, other, got);
        if (t == 0 && library_first) { /* the maker learns how many buffers there are */
            float unused[COUNT];
            make_row(&m, other, 0, 1, unused);
        }
        assert_memory_equal(got, wanted, sizeof got);
    }
    unlink(path);
    crypto_seed_close(m.seed);
    dpmf_noise_free(whole);
    dpmf_noise_free(own);
    dpmf_noise_free(other);
    dpmf_mechanism_free(mechanism);
}

static void test_checkpoints_go_from_one_to_the_other(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        check_checkpoint(mechanism_of("bsr", "momentum:0.9", NULL, 4, 0, 0), first);
        check_checkpoint(mechanism_of("tvblt", "prefix", NULL, 0, 3, 0), first);
        check_checkpoint(mechanism_of("identity", "prefix", NULL, 0, 0, 0), first);
    }
}

static void test_a_row_that_did_not_arrive_stays_in_doubt(void **state) {
    (void)state;
    static maker m;
    char path[] = "/tmp/dpmf_elsewhere_XXXXXX";
    float row[COUNT];
    double scale = 0;
    dpmf_mechanism *mechanism = mechanism_of("identity", "prefix", NULL, 0, 0, 0);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    unlink(path);
    dpmf_noise *noise = stream_of(mechanism, &m, path, 0);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_arrived(noise)); /* nothing has been reserved */
    next_row(&m, noise, row);
    check_ok(dpmf_noise_reserve(noise, 1.0, &scale));
    assert_int_equal(dpmf_noise_get(noise).reserved, 2);
    crypto_seed_close(m.seed);
    dpmf_noise_free(noise);
    noise = stream_of(mechanism, NULL, path, 1); /* the library continues */
    assert_int_equal(dpmf_noise_get(noise).in_doubt, 1);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_next(noise, row));
    check_ok(dpmf_noise_seek(noise, 1));
    check_ok(dpmf_noise_next(noise, row));
    dpmf_noise_free(noise);
    noise = stream_of(mechanism, &m, path, 0);
    assert_int_equal(dpmf_noise_get(noise).step, 2);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(noise, 1)); /* no replay */
    crypto_seed_close(m.seed);
    dpmf_noise_free(noise);
    unlink(path);
    dpmf_mechanism_free(mechanism);
}

static void test_streams_with_and_without_a_maker_are_told_apart(void **state) {
    (void)state;
    static maker m;
    float row[COUNT];
    double scale = 0;
    uint8_t key[DPMF_KEY_SIZE] = {1};
    dpmf_noise_options o = dpmf_noise_options_defaults();
    const dpmf_noise_maker by = {&m, read_buffers, write_buffers};
    dpmf_mechanism *mechanism = mechanism_of("tree", "prefix", NULL, 0, 0, 0);
    dpmf_noise *noise = stream_of(mechanism, NULL, NULL, 0);
    dpmf_recipe recipe;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_noise_recipe(noise, 0, &recipe));
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_noise_reserve(noise, 1, &scale));
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_noise_arrived(noise));
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_noise_subkey(noise, key));
    dpmf_noise_free(noise);
    o.maker = &by;
    o.uncalibrated = 1;
    noise = NULL;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_noise_create(mechanism, 10, 1, key, &o, &noise)); /* no recipes */
    assert_null(noise);
    dpmf_mechanism_free(mechanism);
    mechanism = mechanism_of("identity", "prefix", NULL, 0, 0, 0);
    noise = stream_of(mechanism, &m, NULL, 0);
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_noise_next(noise, row));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_recipe(noise, STEPS, &recipe));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_reserve(noise, 0, &scale));
    crypto_seed_close(m.seed);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(mechanism);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whoever_follows_the_recipes_gets_the_rows),
                                       cmocka_unit_test(test_checkpoints_go_from_one_to_the_other),
                                       cmocka_unit_test(test_a_row_that_did_not_arrive_stays_in_doubt),
                                       cmocka_unit_test(test_streams_with_and_without_a_maker_are_told_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
