/* SPDX-License-Identifier: Apache-2.0 */
/* Local training: updates against gradients and against their definition, the order of batches, and zeroing by coordinates. */
#include "support/train_reference.h"

typedef struct summed {
    base_pool *pool;
    train_model model;
    train_gradient *g;
    float *w;
} summed;

static summed open_sum(const dpmf_dataset *data, int64_t hidden, train_clip clip) {
    summed s = {0};
    uint64_t seed = 11;
    clip.by_unit = 1;
    clip.units = 100;
    check_ok(train_model_of(data->features, hidden, data->classes, &s.model));
    check_ok(base_pool_create(1, &s.pool));
    check_ok(train_gradient_create(data, &s.model, clip, s.pool, &s.g));
    s.w = calloc((size_t)s.model.dim, sizeof *s.w);
    for (int64_t i = 0; i < s.model.dim; i++)
        s.w[i] = (float)check_random(&seed);
    return s;
}

static void close_sum(summed *s) {
    free(s->w);
    train_gradient_free(s->g);
    base_pool_free(s->pool);
}

static const int64_t *sum_of(summed *s, int64_t user) {
    check_ok(train_gradient_sum(s->g, s->w, 1, &user, 0, 1));
    return s->g->sums;
}

static int64_t size_of(const dpmf_dataset *data, int64_t user) {
    int64_t size = 0;
    for (int64_t i = 0; i < data->count; i++)
        size += data->unit[i] == user;
    return size;
}

static int is_power(int64_t n) {
    return (n & (n - 1)) == 0;
}

/*
 * With a rate R that is a power of two the update is R times the gradient, and clipped at C it is R times the gradient clipped at
 * C/R: the same whole numbers on grids whose steps differ by R, if the number of examples is a power of two too. Else the mean
 * of the gradients is rounded to float: 2^-24 of each coordinate.
 */
static void test_one_local_step_is_the_gradient_times_the_rate(void **unused) {
    const double rates[] = {1, 0.25, 8};
    dpmf_dataset *data = case_data(31);
    int same = 0, rounded = 0;
    (void)unused;
    for (int64_t hidden = 0; hidden <= 6; hidden += 6)
        for (int r = 0; r < 3; r++)
            for (double clip = 0.01; clip < 200; clip *= 100) {
                const train_local local = {.steps = 1, .rate = rates[r]};
                summed update = open_sum(data, hidden, (train_clip){.clip = clip, .local = local});
                summed gradient = open_sum(data, hidden, (train_clip){.clip = clip / rates[r]});
                assert_true(update.g->grid.step == rates[r] * gradient.g->grid.step);
                for (int64_t u = 0; u < data->units; u++) {
                    const int64_t *a = sum_of(&update, u), *b = sum_of(&gradient, u);
                    assert_int_equal(update.g->clipped, gradient.g->clipped);
                    if (is_power(size_of(data, u))) {
                        assert_memory_equal(a, b, (size_t)update.model.dim * sizeof *a);
                        same++;
                        continue;
                    }
                    for (int64_t i = 0; i < update.model.dim; i++)
                        assert_true(fabs((double)(a[i] - b[i])) <= 1 + 0x1p-22 * fabs((double)b[i]));
                    rounded++;
                }
                close_sum(&update);
                close_sum(&gradient);
            }
    assert_true(same >= 90 && rounded >= 90);
    dpmf_dataset_free(data);
}

/* w_L by its definition in double, from all of a user's examples in each step. */
static void test_local_steps_are_sgd_from_the_weights_of_the_server(void **unused) {
    enum { STEPS = 7 };
    const double rate = 0.3;
    dpmf_dataset *data = case_data(32);
    (void)unused;
    for (int64_t hidden = 0; hidden <= 6; hidden += 6) {
        const train_local local = {.steps = STEPS, .rate = rate};
        summed s = open_sum(data, hidden, (train_clip){.clip = 1e6, .local = local});
        const int64_t dim = s.model.dim;
        double *w = calloc((size_t)dim, sizeof *w), *g = calloc((size_t)dim, sizeof *g);
        float *now = calloc((size_t)dim, sizeof *now);
        for (int64_t u = 0; u < data->units; u += 5) {
            for (int64_t i = 0; i < dim; i++)
                w[i] = (double)s.w[i];
            for (int l = 0; l < STEPS; l++) {
                for (int64_t i = 0; i < dim; i++) {
                    now[i] = (float)w[i];
                    g[i] = 0;
                }
                for (int64_t i = 0; i < data->count; i++)
                    if (data->unit[i] == u) add_gradient(data, hidden, now, i, 1.0 / (double)size_of(data, u), g);
                for (int64_t i = 0; i < dim; i++)
                    w[i] -= rate * g[i];
            }
            const int64_t *found = sum_of(&s, u);
            double most = 0;
            for (int64_t i = 0; i < dim; i++) {
                check_near((double)found[i] * s.g->grid.step, (double)s.w[i] - w[i], 1e-5);
                most = fmax(most, fabs((double)s.w[i] - w[i]));
            }
            assert_true(most > 0.1); /* far from one gradient: the local weights move */
        }
        free(w);
        free(g);
        free(now);
        close_sum(&s);
    }
    dpmf_dataset_free(data);
}

/*
 * With a rate so small that the local weights hardly move, an update over the rate is the sum of the gradients that were used: in
 * a pass each example once, in batches of M the mean of each.
 */
static void test_a_pass_uses_each_example_once(void **unused) {
    const double rate = 0x1p-40;
    dpmf_dataset *data = case_data(33);
    double g[CASE_CLASSES * (CASE_FEATURES + 1)];
    (void)unused;
    for (int64_t u = 0; u < data->units; u++) {
        const int64_t n = size_of(data, u);
        for (int64_t passes = 1; passes <= 3; passes++)
            for (int64_t batch = 1; batch <= n; batch++) {
                if (n % batch != 0) continue;
                const train_local local = {.steps = passes * n / batch, .rate = rate, .batch = batch};
                summed s = open_sum(data, 0, (train_clip){.clip = 1e-9, .local = local});
                memset(g, 0, sizeof g);
                for (int64_t i = 0; i < data->count; i++)
                    if (data->unit[i] == u) add_gradient(data, 0, s.w, i, (double)passes / (double)batch, g);
                const int64_t *found = sum_of(&s, u);
                for (int64_t i = 0; i < s.model.dim; i++)
                    check_near((double)found[i] * s.g->grid.step / rate, g[i], 1e-4);
                close_sum(&s);
            }
    }
    dpmf_dataset_free(data);
}

/* One local step of one example: which one is seen from the class of the derivatives. Every example comes first in some round. */
static void test_the_order_of_batches_follows_seed_and_round(void **unused) {
    enum { N = 6, ROUNDS = 600 };
    float x[N] = {1, 1, 1, 1, 1, 1};
    const int32_t label[N] = {0, 1, 2, 3, 4, 5};
    const int64_t unit[N] = {0};
    int seen[2][N] = {{0}}, differ = 0, first[ROUNDS] = {0};
    dpmf_dataset *data = NULL;
    (void)unused;
    check_ok(dpmf_dataset_create(N, 1, N, x, label, unit, &data));
    for (int seed = 0; seed < 2; seed++) {
        const train_local local = {.steps = 1, .rate = 1, .batch = 1, .seed = (uint64_t)seed};
        summed s = open_sum(data, 0, (train_clip){.clip = 10, .local = local});
        for (int t = 0; t < ROUNDS; t++) {
            int at = 0;
            s.g->round = t;
            const int64_t *sums = sum_of(&s, 0);
            for (int i = 0; i < N; i++)
                if (sums[i] < sums[at]) at = i; /* p - 1 of its own class alone is negative */
            seen[seed][at]++;
            differ += seed == 1 && first[t] != at;
            if (seed == 0) first[t] = at;
        }
        close_sum(&s);
    }
    /* Binomial(600, 1/6): 100, deviation 9.1; and 5/6 of the rounds differ. False alarms below 1e-9. */
    for (int i = 0; i < 2 * N; i++)
        assert_true(seen[i / N][i % N] > 40 && seen[i / N][i % N] < 160);
    assert_true(differ > 420 && differ < 580);
    dpmf_dataset_free(data);
}

static double largest_added(train_gradient *g, const float *w, int64_t unit) {
    double most = 0;
    check_ok(train_gradient_sum(g, w, 1, &unit, 0, 1));
    for (int64_t i = 0; i < g->model.dim; i++)
        most = fmax(most, fabs((double)g->sums[i]) * g->grid.step);
    return most;
}

/* Largest coordinates, found one by one, decide for gradients of examples, of users and for updates. */
static void test_units_with_a_coordinate_above_the_bound_add_nothing(void **unused) {
    dpmf_dataset *data = case_data(34);
    (void)unused;
    for (int kind = 0; kind < 3; kind++)
        for (int64_t hidden = 0; hidden <= 6; hidden += 6) {
            const train_local local = {.steps = kind == 2 ? 3 : 0, .rate = 0.5, .batch = 2};
            double low = INFINITY, high = 0;
            uint64_t seed = 12;
            base_pool *pool = NULL;
            train_model model;
            train_gradient *free_sum = NULL, *zeroed = NULL;
            int out = 0, in = 0;
            train_clip clip = {.clip = 20, .by_unit = kind > 0, .units = 1, .local = local};
            check_ok(train_model_of(data->features, hidden, data->classes, &model));
            check_ok(base_pool_create(1, &pool));
            check_ok(train_gradient_create(data, &model, clip, pool, &free_sum));
            float *w = calloc((size_t)model.dim, sizeof *w);
            for (int64_t i = 0; i < model.dim; i++) /* at weights of zero the derivatives of all examples are alike */
                w[i] = (float)(0.2 * check_random(&seed));
            const int64_t units = kind > 0 ? data->units : data->count;
            for (int64_t u = 0; u < units; u++) {
                const double most = largest_added(free_sum, w, u);
                low = fmin(low, most);
                high = fmax(high, most);
            }
            const double bound = clip.zero_above = (low + high) / 2;
            clip.zero_largest = 1;
            check_ok(train_gradient_create(data, &model, clip, pool, &zeroed));
            for (int64_t u = 0; u < units; u++) {
                const double most = largest_added(free_sum, w, u);
                check_ok(train_gradient_sum(zeroed, w, 1, &u, 0, 1));
                if (fabs(most - bound) < 1e-4) continue; /* an example's grid has steps of some 1e-5 here */
                if (most > bound) {
                    for (int64_t i = 0; i < model.dim; i++)
                        assert_true(zeroed->sums[i] == 0);
                    out++;
                } else {
                    assert_memory_equal(zeroed->sums, free_sum->sums, (size_t)model.dim * sizeof *zeroed->sums);
                    in++;
                }
            }
            assert_true(out > 0 && in > 0);
            free(w);
            train_gradient_free(free_sum);
            train_gradient_free(zeroed);
            base_pool_free(pool);
        }
    dpmf_dataset_free(data);
}

/* Threads, small blocks and parts change no bit of the sum of a round. */
static void test_updates_have_the_same_bits_for_any_threads(void **unused) {
    dpmf_dataset *data = case_data(35);
    int64_t batch[CASE_USERS];
    (void)unused;
    for (int i = 0; i < CASE_USERS; i++)
        batch[i] = (i * 5) % CASE_USERS;
    for (int private = 0; private < 2; private ++) {
        int64_t *first = NULL;
        for (int threads = 1; threads <= 4; threads++) {
            const train_local local = {.steps = 5, .rate = 0.4, .batch = 3, .seed = 7};
            const double clip = private ? 0.7 : INFINITY;
            base_pool *pool = NULL;
            train_model model;
            train_gradient *g = NULL;
            check_ok(train_model_of(data->features, 9, data->classes, &model));
            check_ok(base_pool_create(threads, &pool));
            check_ok(train_gradient_create(
                data, &model, (train_clip){.clip = clip, .by_unit = 1, .units = 100, .local = local}, pool, &g));
            float *w = calloc((size_t)model.dim, sizeof *w);
            check_ok(train_model_start(&model, 3, w));
            g->worth = threads > 1 ? 0 : 1e300;
            g->round = 4;
            if (threads == 3) g->block.room = 30;
            if (threads == 4) g->users_room = 2;
            check_ok(train_gradient_sum(g, w, CASE_USERS, batch, 0, 1));
            if (first == NULL) {
                first = malloc((size_t)model.dim * sizeof *first);
                memcpy(first, g->sums, (size_t)model.dim * sizeof *first);
            }
            assert_memory_equal(first, g->sums, (size_t)model.dim * sizeof *first);
            if (private) { /* whole numbers: parts add up */
                int64_t *all = calloc((size_t)model.dim, sizeof *all);
                for (int part = 0; part < 3; part++) {
                    check_ok(train_gradient_sum(g, w, CASE_USERS, batch, part, 3));
                    for (int64_t i = 0; i < model.dim; i++)
                        all[i] += g->sums[i];
                }
                assert_memory_equal(first, all, (size_t)model.dim * sizeof *all);
                free(all);
            }
            free(w);
            train_gradient_free(g);
            base_pool_free(pool);
        }
        free(first);
    }
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_local_step_is_the_gradient_times_the_rate),
        cmocka_unit_test(test_local_steps_are_sgd_from_the_weights_of_the_server),
        cmocka_unit_test(test_a_pass_uses_each_example_once),
        cmocka_unit_test(test_the_order_of_batches_follows_seed_and_round),
        cmocka_unit_test(test_units_with_a_coordinate_above_the_bound_add_nothing),
        cmocka_unit_test(test_updates_have_the_same_bits_for_any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
