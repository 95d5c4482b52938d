/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients scaled before they are clipped: the bound under any scale, the scale itself, what is released. The correction of Adam. */
#include "support/train_cases.h"

#include "base/memory.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The sum of one unit at a scale, in steps of the grid; the gradient's own grid in *g. */
static train_gradient *open_gradient(const dpmf_dataset *data, int64_t hidden, train_clip clip, base_pool *pool) {
    train_model model;
    train_gradient *g = NULL;
    check_ok(train_model_of(data->features, hidden, data->classes, &model));
    check_ok(train_gradient_create(data, &model, clip, pool, &g));
    return g;
}

static void test_no_unit_adds_more_than_the_clip_norm_at_any_scale(void **unused) {
    static const float sizes[] = {1e-30F, 1e-6F, 1, 1e6F, 1e30F};
    dpmf_dataset *data = case_data(3);
    base_pool *pool = NULL;
    uint64_t seed = 5;
    int full = 0;
    (void)unused;
    check_ok(base_pool_create(1, &pool));
    for (int kind = 0; kind < 8; kind++) {
        const int by_unit = kind % 2;
        const train_clip clip = {.clip = 0.3,
                                 .by_unit = by_unit,
                                 .units = by_unit ? CASE_USERS : CASE_EXAMPLES,
                                 .gamma = kind / 2 % 2 ? 0.01 : 0,
                                 .scaled = 1};
        train_gradient *g = open_gradient(data, kind / 4 * 6, clip, pool);
        const int64_t dim = g->model.dim;
        float *weights = calloc((size_t)dim, sizeof *weights), *scale = calloc((size_t)dim, sizeof *scale);
        check_ok(train_model_start(&g->model, 1, weights));
        g->scale = scale;
        for (int64_t unit = 0; unit < 20; unit++) {
            for (int64_t i = 0; i < dim; i++)
                scale[i] = sizes[(int)((check_random(&seed) + 1) * 2.4999)];
            check_ok(train_gradient_sum(g, weights, 1, &unit, 0, 1));
            unsigned __int128 square = 0;
            for (int64_t i = 0; i < dim; i++)
                square += (unsigned __int128)((__int128)g->sums[i] * g->sums[i]);
            const double radius = floor(0.3 * g->grid.per_step);
            assert_true(square <= (unsigned __int128)radius * (unsigned __int128)radius);
            full += (double)square > 0.99 * radius * radius;
        }
        free(weights);
        free(scale);
        train_gradient_free(g);
    }
    assert_true(full > 100);
    base_pool_free(pool);
    dpmf_dataset_free(data);
}

/* At equal scales the gradients of examples that are formed are those of the exact product, up to the roundings of both. */
static void test_the_formed_gradients_are_those_of_the_product(void **unused) {
    dpmf_dataset *data = case_data(4);
    base_pool *pool = NULL;
    int64_t batch[40];
    (void)unused;
    check_ok(base_pool_create(1, &pool));
    for (int64_t i = 0; i < 40; i++)
        batch[i] = 3 * i;
    for (int64_t hidden = 0; hidden < 7; hidden += 6) {
        train_clip clip = {.clip = 0.5, .units = CASE_EXAMPLES};
        train_gradient *product = open_gradient(data, hidden, clip, pool);
        clip.scaled = 1;
        train_gradient *formed = open_gradient(data, hidden, clip, pool);
        const int64_t dim = formed->model.dim;
        float *weights = calloc((size_t)dim, sizeof *weights), *scale = calloc((size_t)dim, sizeof *scale);
        check_ok(train_model_start(&formed->model, 1, weights));
        for (int64_t i = 0; i < dim; i++)
            scale[i] = 1;
        formed->scale = scale;
        check_ok(train_gradient_sum(product, weights, 40, batch, 0, 1));
        check_ok(train_gradient_sum(formed, weights, 40, batch, 0, 1));
        for (int64_t i = 0; i < dim; i++)
            assert_true(fabs((double)product->sums[i] * product->grid.step -
                             (double)formed->sums[i] * formed->grid.step) < 1e-4);
        free(weights);
        free(scale);
        train_gradient_free(product);
        train_gradient_free(formed);
    }
    base_pool_free(pool);
    dpmf_dataset_free(data);
}

static const dpmf_optimizer ADAPTIVE[] = {DPMF_OPTIMIZER_ADAM, DPMF_OPTIMIZER_ADAGRAD, DPMF_OPTIMIZER_RMSPROP};

/* Of the second moments before the step; 1 before the first; what was released is divided by it. */
static void test_the_scale_is_that_of_the_moments(void **unused) {
    dpmf_dataset *data = case_data(5);
    (void)unused;
    for (int kind = 0; kind < 3; kind++) {
        case_plan plan = case_defaults();
        plan.options.optimizer = ADAPTIVE[kind];
        plan.options.precondition = 0.25;
        case_run r = case_open(data, &plan);
        const int64_t dim = r.trainer->model.dim;
        double *v = calloc((size_t)dim, sizeof *v);
        for (int t = 0; t < 4; t++) {
            double mean = 0;
            const float *row = r.trainer->stepper.state + (kind == 0 ? dim : 0);
            for (int64_t i = 0; i < dim; i++)
                mean += (v[i] = (double)row[i]) / (double)dim;
            case_steps(&r, 1);
            for (int64_t i = 0; i < dim; i++) {
                const double want = t == 0 ? 1 : 1.25 / (sqrt(v[i] / mean) + 0.25);
                check_near((double)r.trainer->scale[i], want, 1e-6);
                const double sum = (double)r.trainer->gradient->sums[i] * r.trainer->gradient->grid.step;
                check_near((double)r.trainer->released[i], sum / (double)r.trainer->scale[i], 1e-6);
            }
        }
        free(v);
        case_close(&r);
    }
    dpmf_dataset_free(data);
}

static void test_a_resumed_run_has_the_same_bits(void **unused) {
    dpmf_dataset *data = case_data(6);
    (void)unused;
    for (int kind = 0; kind < 4; kind++) {
        case_plan plan = case_defaults();
        plan.family = "blt";
        plan.options.optimizer = ADAPTIVE[kind % 3];
        plan.options.precondition = kind < 3 ? 0.1 : 0;
        plan.options.correct = kind == 3;
        case_run whole = case_open(data, &plan), first = case_open(data, &plan);
        const char *path = "moments.run";
        case_steps(&whole, 20);
        case_steps(&first, 7);
        check_ok(dpmf_trainer_save(first.trainer, path));
        case_close(&first);
        case_run second = case_open(data, &plan);
        check_ok(dpmf_trainer_load(second.trainer, path));
        case_steps(&second, 13);
        check_same_weights(&whole, &second);
        plan.options.precondition = kind < 3 ? 0.2 : 0.1;
        plan.options.correct = 0;
        case_run other = case_open(data, &plan);
        assert_int_not_equal(dpmf_trainer_load(other.trainer, path), DPMF_OK);
        remove(path);
        case_close(&whole);
        case_close(&second);
        case_close(&other);
    }
    dpmf_dataset_free(data);
}

/* The variance of row t of W, by the deviation of the noise; v is the mean of what is left, and never used below `least`. */
static void test_the_correction_is_the_variance_of_the_row(void **unused) {
    dpmf_dataset *data = case_data(7);
    case_plan plan = case_defaults();
    double w[20];
    (void)unused;
    plan.family = "toeplitz";
    plan.options.optimizer = DPMF_OPTIMIZER_ADAM;
    plan.options.correct = 1;
    plan.options.beta2 = 0.5;
    case_run r = case_open(data, &plan);
    const train_stepper *s = &r.trainer->stepper;
    const double one = dpmf_noise_get(r.trainer->noise).release.scale / dpmf_sampler_get(r.sampler).expected;
    dpmf_strategy *strategy = (dpmf_strategy *)dpmf_mechanism_get(r.mechanism).strategy;
    double impulse[20] = {1}, norm = 0, noise = 0;
    check_ok(dpmf_strategy_solve(strategy, impulse, w)); /* Toeplitz: row t has the coefficients 0 to t of C^-1 */
    for (int t = 0; t < 20; t++) {
        norm += w[t] * w[t];
        check_near(s->variance[t], one * one * norm, 1e-9);
        noise = 0.25 * noise + 0.25 * 2 * s->variance[t] * s->variance[t];
        check_near(s->least[t], sqrt(noise), 1e-12);
    }
    double v = 0;
    for (int t = 0; t < 5; t++) {
        case_steps(&r, 1);
        const double g = (double)r.trainer->released[3] / dpmf_sampler_get(r.sampler).expected;
        v = 0.5 * v + 0.5 * (g * g - s->variance[t]);
        assert_true(fabs((double)s->state[s->dim + 3] - v) <= 1e-5 * (fabs(v) + s->variance[t]));
    }
    case_close(&r);
    dpmf_dataset_free(data);
}

static void refuse(const dpmf_dataset *data, case_plan plan) {
    case_run r = case_begin(data, &plan);
    assert_int_equal(dpmf_trainer_create(data, r.mechanism, r.sampler, r.key, &plan.options, &r.trainer),
                     DPMF_ERROR_ARGUMENT);
    assert_null(r.trainer);
    case_close(&r);
}

static void test_what_moments_do_not_go_with(void **unused) {
    static const double floors[] = {-1, 1e-9, 1e9, NAN};
    dpmf_dataset *data = case_data(8);
    (void)unused;
    for (int i = 0; i < 10; i++) {
        case_plan plan = case_defaults();
        dpmf_trainer_options *o = &plan.options;
        o->optimizer = DPMF_OPTIMIZER_ADAM;
        o->precondition = i < 4 ? floors[i] : 0.1;
        if (i == 4) o->optimizer = DPMF_OPTIMIZER_SGD;
        if (i == 5) o->zero_above = 2;
        if (i == 6) o->noiseless = 1, o->clip = INFINITY;
        if (i == 7) o->correct = 1;
        if (i > 7) o->precondition = 0, o->correct = 1;
        if (i == 8) o->optimizer = DPMF_OPTIMIZER_RMSPROP;
        if (i == 9) o->noiseless = 1;
        refuse(data, plan);
    }
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_unit_adds_more_than_the_clip_norm_at_any_scale),
        cmocka_unit_test(test_the_formed_gradients_are_those_of_the_product),
        cmocka_unit_test(test_the_scale_is_that_of_the_moments),
        cmocka_unit_test(test_a_resumed_run_has_the_same_bits),
        cmocka_unit_test(test_the_correction_is_the_variance_of_the_row),
        cmocka_unit_test(test_what_moments_do_not_go_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
