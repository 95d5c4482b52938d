/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: plain SGD, Adam, momentum as a workload, the noise of a step, threads, empty batches. */
#include "base/memory.h"
#include "support/train_reference.h"

/* ---- the optimizer ---- */

/* Without noise and clipping a run is plain SGD, here written out in double. */
static void plain_sgd(int64_t hidden, double momentum, int nesterov, double decay, int by_unit) {
    enum { STEPS = 20 };
    dpmf_dataset *data = case_data(7);
    case_plan plan = case_defaults();
    double schedule[STEPS];
    for (int t = 0; t < STEPS; t++)
        schedule[t] = 1.0 / (1 + t % 4);
    plan.options.noiseless = 1;
    plan.options.clip = INFINITY;
    plan.options.hidden = hidden;
    plan.options.momentum = momentum;
    plan.options.nesterov = nesterov;
    plan.options.decay = decay;
    plan.options.schedule = schedule;
    plan.options.learning_rate = 0.3;
    plan.options.by_unit = by_unit;
    if (by_unit) plan.sampler = "cyclic:5", plan.participation = "cyclic:4,5";
    case_run r = case_open(data, &plan);
    const int64_t dim = r.trainer->model.dim, units = by_unit ? CASE_USERS : CASE_EXAMPLES;
    const double expected = dpmf_sampler_get(r.sampler).expected;
    const train_clip none = {INFINITY, 0, by_unit, units, 0, 0, 0, {0}, 0, 0};
    dpmf_sampler *same = NULL;
    int64_t batch[CASE_EXAMPLES], count = 0;
    double *w = calloc((size_t)dim, sizeof *w), *m = calloc((size_t)dim, sizeof *m);
    check_ok(dpmf_sampler_create(plan.sampler, units, STEPS, r.key, NULL, &same));
    for (int64_t i = 0; i < dim; i++)
        w[i] = (double)r.trainer->weights[i];
    for (int t = 0; t < STEPS; t++) {
        double *g = calloc((size_t)dim, sizeof *g);
        float *rounded = calloc((size_t)dim, sizeof *rounded);
        const double rate = 0.3 * schedule[t];
        check_ok(dpmf_sampler_next(same, batch, &count));
        for (int64_t i = 0; i < dim; i++)
            rounded[i] = (float)w[i];
        for (int64_t i = 0; i < count; i++)
            add_unit(data, &none, hidden, dim, rounded, batch[i], g);
        for (int64_t i = 0; i < dim; i++) {
            m[i] = momentum * m[i] + g[i] / expected;
            w[i] = (1 - rate * decay) * w[i] - rate * (nesterov ? g[i] / expected + momentum * m[i] : m[i]);
        }
        check_ok(dpmf_trainer_next(r.trainer));
        for (int64_t i = 0; i < dim; i++)
            check_near((double)r.trainer->weights[i], w[i], 1e-5);
        free(g);
        free(rounded);
    }
    assert_true(dpmf_trainer_clipped(r.trainer) == 0);
    dpmf_sampler_free(same);
    free(w);
    free(m);
    case_close(&r);
    dpmf_dataset_free(data);
}

static void test_plain_sgd_is_the_reference(void **unused) {
    (void)unused;
    plain_sgd(0, 0, 0, 0, 0);
    plain_sgd(0, 0.9, 0, 0.05, 0);
    plain_sgd(0, 0.9, 1, 0, 1);
    plain_sgd(9, 0.5, 0, 0, 0);
}

static void test_adam_is_its_definition(void **unused) {
    dpmf_trainer_options o = dpmf_trainer_options_defaults();
    train_stepper s;
    float w = 1;
    double m = 0, v = 0, want = 1;
    (void)unused;
    o.optimizer = DPMF_OPTIMIZER_ADAM;
    o.learning_rate = 0.1;
    o.decay = 0.01;
    check_ok(train_stepper_open(&o, 50, 1, &s));
    for (int t = 0; t < 50; t++) {
        const float sum = (float)sin(t) * 8;
        const double g = (double)sum / 4;
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        want = want * (1 - 0.1 * 0.01) - 0.1 * m / (1 - pow(0.9, t + 1)) / (sqrt(v / (1 - pow(0.999, t + 1))) + 1e-8);
        train_stepper_step(&s, t, &sum, 4, &w);
        check_near((double)w, want, 1e-5);
    }
    train_stepper_close(&s);
}

/* Adagrad and RMSprop in whole private runs, from the sums that the runs released, in double from the beginning. */
static void scaled_run(dpmf_optimizer kind, double smoothing, double momentum, double decay) {
    enum { STEPS = 20 };
    dpmf_dataset *data = case_data(18);
    case_plan plan = case_defaults();
    double schedule[STEPS];
    for (int t = 0; t < STEPS; t++)
        schedule[t] = 1.0 / (1 + t % 3);
    plan.options.optimizer = kind;
    plan.options.smoothing = smoothing;
    plan.options.momentum = momentum;
    plan.options.decay = decay;
    plan.options.schedule = schedule;
    plan.options.learning_rate = 0.1;
    plan.options.hidden = 4;
    plan.family = "bsr";
    plan.bands = 3;
    case_run r = case_open(data, &plan);
    const int64_t dim = r.trainer->model.dim;
    double *v = calloc((size_t)dim, sizeof *v), *m = calloc((size_t)dim, sizeof *m),
           *w = calloc((size_t)dim, sizeof *w);
    for (int64_t i = 0; i < dim; i++)
        w[i] = (double)r.trainer->weights[i];
    for (int t = 0; t < STEPS; t++) {
        case_steps(&r, 1);
        for (int64_t i = 0; i < dim; i++) {
            const double g = (double)r.trainer->released[i] / dpmf_sampler_get(r.sampler).expected;
            v[i] = kind == DPMF_OPTIMIZER_ADAGRAD ? v[i] + g * g : smoothing * v[i] + (1 - smoothing) * g * g;
            m[i] = momentum * m[i] + g / (sqrt(v[i]) + 1e-8);
            w[i] = w[i] * (1 - 0.1 * schedule[t] * decay) - 0.1 * schedule[t] * m[i];
            check_near((double)r.trainer->weights[i], w[i], 1e-5 * (1 + fabs(w[i])));
        }
    }
    free(v);
    free(m);
    free(w);
    case_close(&r);
    dpmf_dataset_free(data);
}

static void test_adagrad_and_rmsprop_are_their_definitions(void **unused) {
    (void)unused;
    scaled_run(DPMF_OPTIMIZER_ADAGRAD, 0.99, 0, 0);
    scaled_run(DPMF_OPTIMIZER_ADAGRAD, 0.99, 0, 0.5);
    scaled_run(DPMF_OPTIMIZER_RMSPROP, 0.99, 0, 0);
    scaled_run(DPMF_OPTIMIZER_RMSPROP, 0.9, 0.8, 0.25);
    scaled_run(DPMF_OPTIMIZER_RMSPROP, 0, 0, 0);
}

/*
 * Momentum inside the workload (Denisov et al. 2022, Section 4): the optimizer's sum of the gradients is A times them,
 * so that momentum as post-processing of private gradients and a mechanism whose workload has it give the same weights
 * without noise. Softmax regression starts at zero, so decay fits too (its lambda is per unit of rate).
 */
static void compare_workload(const char *text, double momentum, int nesterov, double decay, const double *schedule) {
    enum { STEPS = 20 };
    dpmf_dataset *data = case_data(8);
    case_plan plan = case_defaults();
    dpmf_workload *workload = NULL;
    plan.options.noiseless = 1;
    plan.options.momentum = momentum;
    plan.options.nesterov = nesterov;
    plan.options.decay = decay;
    plan.options.schedule = schedule;
    plan.options.learning_rate = 0.25;
    plan.workload = text;
    case_run inside = case_open(data, &plan);
    plan.workload = "prefix";
    case_run after = case_open(data, &plan);
    const int64_t dim = inside.trainer->model.dim;
    double *g = calloc((size_t)(dim * STEPS), sizeof *g), *iterate = calloc((size_t)(dim * STEPS), sizeof *iterate);
    for (int t = 0; t < STEPS; t++) {
        check_ok(dpmf_trainer_next(inside.trainer));
        check_ok(dpmf_trainer_next(after.trainer));
        check_same_weights(&inside, &after);
        for (int64_t i = 0; i < dim; i++) {
            g[i * STEPS + t] = (double)inside.trainer->released[i] / dpmf_sampler_get(inside.sampler).expected;
            iterate[i * STEPS + t] = (double)inside.trainer->weights[i];
        }
    }
    check_ok(dpmf_workload_parse(text, STEPS, &workload));
    for (int64_t i = 0; i < dim; i++) {
        double sums[STEPS];
        check_ok(dpmf_workload_apply(workload, g + i * STEPS, sums));
        for (int t = 0; t < STEPS; t++)
            check_near(iterate[i * STEPS + t], -0.25 * sums[t], 1e-5);
    }
    dpmf_workload_free(workload);
    free(g);
    free(iterate);
    case_close(&inside);
    case_close(&after);
    dpmf_dataset_free(data);
}

static void test_sgd_is_the_linear_map_of_its_workload(void **unused) {
    double schedule[20];
    (void)unused;
    for (int t = 0; t < 20; t++) /* cooldown:0.5:0.1 */
        schedule[t] = t < 10 ? 1 : 1 - 0.9 * (t - 9) / 10;
    compare_workload("prefix", 0, 0, 0, NULL);
    compare_workload("momentum:0.9", 0.9, 0, 0, NULL);
    compare_workload("nesterov:0.8", 0.8, 1, 0, NULL);
    compare_workload("momentum:0.9,cooldown:0.5:0.1", 0.9, 0, 0, schedule);
    compare_workload("decay:0.1", 0, 0, 0.4, NULL);
}

/* ---- a step ---- */

/* With a factor of 0 the weights stand still, bit for bit, and the step, its noise and its momentum go on. */
static void test_a_step_with_a_factor_of_zero_moves_nothing(void **unused) {
    dpmf_dataset *data = case_data(9);
    double schedule[20];
    (void)unused;
    for (int adam = 0; adam < 2; adam++) {
        case_plan plan = case_defaults();
        for (int t = 0; t < 20; t++)
            schedule[t] = t % 5 == 2 ? 0 : 1;
        plan.options.schedule = schedule;
        plan.options.optimizer = adam ? DPMF_OPTIMIZER_ADAM : DPMF_OPTIMIZER_SGD;
        plan.options.momentum = adam ? 0 : 0.9;
        plan.options.decay = 0.125;
        case_run r = case_open(data, &plan);
        const size_t bytes = (size_t)r.trainer->model.dim * sizeof(float);
        float *before = malloc(bytes), *state = malloc(bytes);
        for (int t = 0; t < 20; t++) {
            memcpy(before, r.trainer->weights, bytes);
            memcpy(state, r.trainer->stepper.state, bytes);
            case_steps(&r, 1);
            assert_int_equal(memcmp(before, r.trainer->weights, bytes) == 0, t % 5 == 2);
            assert_memory_not_equal(state, r.trainer->stepper.state, bytes);
        }
        free(before);
        free(state);
        case_close(&r);
    }
    dpmf_dataset_free(data);
}

/* The released sum is the clipped sum plus the row of the mechanism's noise under the run's own label. */
static void test_the_row_of_noise_is_added_to_the_clipped_sum(void **unused) {
    dpmf_dataset *data = case_data(9);
    case_plan plan = case_defaults();
    (void)unused;
    plan.family = "bsr";
    plan.bands = 3;
    plan.options.clip = 0.5;
    case_run private = case_open(data, &plan);
    plan.options.noiseless = 1;
    case_run clean = case_open(data, &plan);
    const int64_t dim = private.trainer->model.dim;
    char *identity = NULL, label[65];
    dpmf_noise *noise = NULL;
    dpmf_noise_options options = dpmf_noise_options_defaults();
    check_ok(train_identify(private.trainer, private.key, &identity, label));
    options.label = label;
    options.run.threads = 1;
    check_ok(dpmf_noise_create(private.mechanism, dim, 0.5, private.key, &options, &noise));
    float *row = calloc((size_t)dim, sizeof *row);
    for (int t = 0; t < 5; t++) {
        memcpy(clean.trainer->weights, private.trainer->weights, (size_t)dim * sizeof *row);
        case_steps(&private, 1);
        case_steps(&clean, 1);
        check_ok(dpmf_noise_next(noise, row));
        const train_gradient *sum = clean.trainer->gradient, *noisy = private.trainer->gradient;
        assert_true(sum->grid.step == noisy->grid.step);
        for (int64_t i = 0; i < dim; i++)
            assert_true(noisy->sums[i] - sum->sums[i] == (int64_t)floor((double)row[i] * sum->grid.per_step + 0.5));
    }
    /* 0.5 is the clip, 0.7 is sigma, and k = 4 participations of unit columns that do not overlap make 2. */
    assert_true(dpmf_noise_get(noise).release.scale > 0.5 * 0.7 * 1.99);
    assert_true(dpmf_trainer_noise_seconds(private.trainer) > 0);
    free(row);
    dpmf_noise_free(noise);
    base_free(identity);
    case_close(&private);
    case_close(&clean);
    dpmf_dataset_free(data);
}

/* Any other setting is another run with other noise, under the same key. */
static void test_any_other_setting_has_other_noise(void **unused) {
    dpmf_dataset *data = case_data(9), *other = case_data(10);
    char labels[14][65];
    (void)unused;
    for (int i = 0; i < 14; i++) {
        case_plan plan = case_defaults();
        char *identity = NULL;
        dpmf_trainer_options *o = &plan.options;
        if (i == 1) o->learning_rate = 0.6;
        if (i == 2) o->momentum = 0.5;
        if (i == 3) o->clip = 2;
        if (i == 4) o->hidden = 3;
        if (i == 5) o->decay = 0.1;
        if (i == 6) o->zero_above = 7;
        if (i == 7) plan.sampler = "cyclic:31";
        if (i == 8) o->seed = 1;
        if (i == 9) plan.key = 2;
        if (i == 10) plan.sigma = 0.8;
        if (i >= 12) o->gamma = i == 12 ? 0.01 : 0.02;
        case_run r = case_open(i == 11 ? other : data, &plan);
        check_ok(train_identify(r.trainer, r.key, &identity, labels[i]));
        assert_non_null(strstr(identity, "\narithmetic: 3\n")); /* so is another arithmetic of the sums */
        for (int j = 0; j < i; j++)
            assert_string_not_equal(labels[i], labels[j]);
        base_free(identity);
        case_close(&r);
    }
    dpmf_dataset_free(data);
    dpmf_dataset_free(other);
}

static void test_weights_have_the_same_bits_for_any_threads(void **unused) {
    dpmf_dataset *data = case_data(12);
    (void)unused;
    for (int by_unit = 0; by_unit < 2; by_unit++) {
        case_plan plan = case_defaults();
        plan.options.by_unit = by_unit;
        plan.options.hidden = 17;
        plan.options.momentum = 0.9;
        if (by_unit) plan.sampler = "cyclic:5";
        case_run one = case_open(data, &plan);
        case_steps(&one, 20);
        for (int threads = 2; threads <= 5; threads += 3) {
            plan.options.run.threads = threads;
            case_run many = case_open(data, &plan);
            many.trainer->gradient->worth = 0;
            case_steps(&many, 20);
            check_same_weights(&one, &many);
            case_close(&many);
        }
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_next(one.trainer));
        check_message("complete");
        case_close(&one);
    }
    dpmf_dataset_free(data);
}

/* Sums are divided by the expected batch size; an empty batch is a step like any other. */
static void test_an_empty_batch_is_a_step_like_any_other(void **unused) {
    dpmf_dataset *data = case_data(13);
    case_plan plan = case_defaults();
    int empty = 0;
    (void)unused;
    plan.participation = "full";
    plan.sampling = plan.sampler = "poisson:0.005";
    plan.steps = 40;
    case_run private = case_open(data, &plan);
    plan.options.noiseless = 1;
    case_run clean = case_open(data, &plan);
    const int64_t dim = clean.trainer->model.dim;
    for (int t = 0; t < 40; t++) {
        float *before = malloc((size_t)dim * sizeof *before);
        memcpy(before, clean.trainer->weights, (size_t)dim * sizeof *before);
        case_steps(&clean, 1);
        case_steps(&private, 1);
        if (clean.trainer->gradient->units == 0) {
            empty++;
            assert_memory_equal(before, clean.trainer->weights, (size_t)dim * sizeof *before);
        }
        for (int64_t i = 0; i < dim; i++)
            check_near((double)clean.trainer->weights[i],
                       (double)before[i] - 0.5 * (double)clean.trainer->released[i] / 0.75, 1e-6);
        free(before);
    }
    assert_true(empty > 0 && empty < 40); /* each with probability exp(-0.75): false alarms below 1e-8 */
    assert_memory_not_equal(private.trainer->weights, clean.trainer->weights, (size_t)dim * sizeof(float));
    case_close(&private);
    case_close(&clean);
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_sgd_is_the_reference),
        cmocka_unit_test(test_adam_is_its_definition),
        cmocka_unit_test(test_adagrad_and_rmsprop_are_their_definitions),
        cmocka_unit_test(test_sgd_is_the_linear_map_of_its_workload),
        cmocka_unit_test(test_a_step_with_a_factor_of_zero_moves_nothing),
        cmocka_unit_test(test_the_row_of_noise_is_added_to_the_clipped_sum),
        cmocka_unit_test(test_any_other_setting_has_other_noise),
        cmocka_unit_test(test_weights_have_the_same_bits_for_any_threads),
        cmocka_unit_test(test_an_empty_batch_is_a_step_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
