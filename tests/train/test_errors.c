/* SPDX-License-Identifier: Apache-2.0 */
/* Training that cannot continue, or may not begin: gradients that are not finite, bad options, samplers, memory. */
#include "support/failing_allocator.h"
#include "support/train_cases.h"

#include <stdlib.h>

/*
 * Weights that have grown too large, in a run without clip and noise: the step is named, nothing of it is released, and it
 * can be tried again.
 */
static void test_a_gradient_that_is_not_finite_releases_nothing(void **unused) {
    dpmf_dataset *data = case_data(14);
    case_plan plan = case_defaults();
    (void)unused;
    plan.options.hidden = 4;
    plan.options.noiseless = 1;
    plan.options.clip = INFINITY;
    case_run r = case_open(data, &plan), plain = case_open(data, &plan);
    const size_t bytes = (size_t)r.trainer->model.dim * sizeof(float);
    float *bad = malloc(bytes), *good = malloc(bytes);
    case_steps(&r, 3);
    case_steps(&plain, 3);
    memcpy(good, r.trainer->weights, bytes);
    const float values[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        r.trainer->weights[r.trainer->model.second] = values[i];
        memcpy(bad, r.trainer->weights, bytes);
        check_fails(DPMF_ERROR_NUMERICAL, dpmf_trainer_next(r.trainer));
        check_message("step 3");
        assert_memory_equal(bad, r.trainer->weights, bytes);
        assert_int_equal(dpmf_trainer_step(r.trainer), 3);
    }
    memcpy(r.trainer->weights, good, bytes);
    case_steps(&r, 3);
    case_steps(&plain, 3);
    check_same_weights(&r, &plain);
    free(bad);
    free(good);
    case_close(&r);
    case_close(&plain);
    dpmf_dataset_free(data);
}

/* Other features or scales under a trainer would be read with the sizes of the old ones, and have the noise of other data. */
static void test_data_that_change_under_a_trainer_are_refused(void **unused) {
    dpmf_dataset *data = case_data(16);
    case_plan plan = case_defaults();
    case_run r = case_open(data, &plan);
    (void)unused;
    case_steps(&r, 2);
    check_ok(dpmf_dataset_scale(data, NULL, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_next(r.trainer));
    check_message("the data set was changed");
    assert_int_equal(dpmf_trainer_step(r.trainer), 2);
    case_close(&r);
    dpmf_dataset_free(data);
}

static void refuse_options(const dpmf_dataset *data, const case_run *r, const dpmf_trainer_options *o,
                           const char *says) {
    dpmf_trainer *none = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_create(data, r->mechanism, r->sampler, r->key, o, &none));
    check_message(says);
    assert_null(none);
}

static void test_trainer_options_out_of_range_are_refused(void **unused) {
    dpmf_dataset *data = case_data(15), *alone = NULL;
    case_plan plan = case_defaults();
    case_run r = case_begin(data, &plan);
    double schedule[20] = {1, 1, 0, -0.5};
    (void)unused;
#define REFUSE(field, value, says)                                                                                     \
    do {                                                                                                               \
        dpmf_trainer_options o = plan.options;                                                                         \
        o.field = (value);                                                                                             \
        refuse_options(data, &r, &o, says);                                                                            \
    } while (0)
    REFUSE(hidden, -1, "hidden = -1");
    REFUSE(hidden, (int64_t)1 << 40, "hidden");
    REFUSE(clip, 0, "clip = 0");
    REFUSE(clip, NAN, "clip");
    REFUSE(clip, 1e-40, "clip = 1e-40");
    REFUSE(clip, INFINITY, "clip = inf");
    REFUSE(gamma, -1, "gamma = -1, accepted: 0 (clipped), or");
    REFUSE(gamma, NAN, "gamma");
    REFUSE(gamma, 1e-31, "gamma = 1e-31");
    REFUSE(gamma, INFINITY, "gamma = inf");
    REFUSE(zero_above, -1, "zero_above");
    REFUSE(zero_above, NAN, "zero_above");
    REFUSE(learning_rate, 0, "learning_rate = 0");
    REFUSE(learning_rate, INFINITY, "learning_rate");
    REFUSE(momentum, 1, "momentum = 1");
    REFUSE(momentum, NAN, "momentum");
    REFUSE(beta1, 1, "beta1");
    REFUSE(beta2, -1, "beta2");
    REFUSE(adam_epsilon, 0, "adam_epsilon");
    REFUSE(decay, 2, "decay = 2");
    REFUSE(decay, -1, "decay");
    REFUSE(schedule, schedule, "schedule[3] = -0.5, accepted: 0 to below 1e30");
    REFUSE(optimizer, (dpmf_optimizer)7, "optimizer 7");
    REFUSE(part, 1, "part 1 of 1");
    REFUSE(parts, 2, "reduce");
    REFUSE(parts, -1, "part 0 of -1");
    REFUSE(by_unit, 1, "draws from 150 units, accepted: 23");
    dpmf_trainer_options free_norm = plan.options;
    free_norm.noiseless = 1;
    free_norm.clip = INFINITY;
    free_norm.gamma = 0.01;
    refuse_options(data, &r, &free_norm, "no clip norm");
    dpmf_trainer_options adam = plan.options;
    adam.optimizer = DPMF_OPTIMIZER_ADAM;
    adam.momentum = 0.5;
    refuse_options(data, &r, &adam, "Adam");
    REFUSE(optimizer, (dpmf_optimizer)-1, "optimizer -1");
    REFUSE(smoothing, 1, "smoothing = 1");
    REFUSE(smoothing, NAN, "smoothing");
    REFUSE(constraint, DPMF_WEIGHTS_BALL, "constraint 1 and regularizer 0 with optimizer 0");
    REFUSE(regularizer, DPMF_REGULARIZER_L1, "constraint 0 and regularizer 1 with optimizer 0");
    REFUSE(constraint, (dpmf_weight_set)4, "constraint 4, accepted: 0 (none), 1 (ball), 2 (box), 3 (simplex)");
    REFUSE(regularizer, (dpmf_regularizer)-1, "regularizer -1");
    REFUSE(radius, 1, "radius = 1 without a constraint");
    REFUSE(l1, 1, "l1 = 1 without the regularizer l1");
    adam.optimizer = DPMF_OPTIMIZER_ADAGRAD;
    refuse_options(data, &r, &adam, "momentum = 0.5 with Adagrad");
    adam.optimizer = DPMF_OPTIMIZER_RMSPROP;
    adam.nesterov = 1;
    refuse_options(data, &r, &adam, "nesterov with optimizer 3");
    dpmf_trainer_options ftrl = plan.options;
    ftrl.optimizer = DPMF_OPTIMIZER_FTRL;
    ftrl.decay = 0.5;
    refuse_options(data, &r, &ftrl, "decay = 0.5 with FTRL");
    ftrl.decay = 0;
    ftrl.regularizer = DPMF_REGULARIZER_ENTROPY;
    refuse_options(data, &r, &ftrl, "regularizer entropy with constraint 0, accepted: 3 (simplex)");
    ftrl.regularizer = DPMF_REGULARIZER_L1;
    for (int i = 0; i < 5; i++) {
        const double bad[] = {0, -1, NAN, INFINITY, 1e30};
        ftrl.constraint = DPMF_WEIGHTS_FREE;
        ftrl.radius = 0;
        ftrl.l1 = bad[i];
        refuse_options(data, &r, &ftrl, "l1 = ");
        ftrl.l1 = 1;
        ftrl.constraint = (dpmf_weight_set)(1 + i % 3);
        ftrl.radius = bad[i];
        refuse_options(data, &r, &ftrl, "radius = ");
    }
    ftrl.constraint = DPMF_WEIGHTS_SIMPLEX;
    ftrl.radius = 1;
    refuse_options(data, &r, &ftrl, "regularizer l1 on a simplex");
    check_ok(dpmf_dataset_create(data->count, data->features, data->classes, data->x, data->label, NULL, &alone));
    dpmf_trainer_options users = plan.options;
    users.by_unit = 1;
    refuse_options(alone, &r, &users, "has no users");
    REFUSE(local_steps, -1, "local_steps = -1");
    REFUSE(local_steps, (int64_t)1 << 40, "local_steps");
    REFUSE(local_steps, 2, "where the unit is the example");
    REFUSE(local_rate, 1, "without local_steps");
    REFUSE(local_batch, 1, "without local_steps");
    REFUSE(zero_largest, 1, "zero_largest without zero_above");
    users.local_steps = 2;
    for (int i = 0; i < 4; i++) {
        const double rates[] = {0, -1, NAN, INFINITY};
        users.local_rate = rates[i];
        refuse_options(data, &r, &users, "local_rate");
    }
    users.local_rate = 1;
    users.local_batch = -1;
    refuse_options(data, &r, &users, "local_batch = -1");
    dpmf_trainer *none = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_create(NULL, r.mechanism, r.sampler, r.key, NULL, &none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_create(data, NULL, r.sampler, r.key, NULL, &none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_create(data, r.mechanism, NULL, r.key, NULL, &none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_create(data, r.mechanism, r.sampler, NULL, NULL, &none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_next(NULL));
    assert_int_equal(dpmf_trainer_dim(data, 0), CASE_CLASSES * (CASE_FEATURES + 1));
    assert_int_equal(dpmf_trainer_dim(data, 9), 9 * (CASE_FEATURES + 1) + CASE_CLASSES * 10);
    assert_int_equal(dpmf_trainer_dim(data, -1), 0);
    assert_int_equal(dpmf_trainer_dim(NULL, 0), 0);
    dpmf_dataset_free(alone);
    case_close(&r);
    dpmf_dataset_free(data);
}

/* A sampler that does not do what the mechanism assumes, or draws from other units, is refused. */
static void test_a_sampler_must_fit_the_mechanism_and_the_data(void **unused) {
    dpmf_dataset *data = case_data(16), *part = NULL;
    case_plan plan = case_defaults();
    dpmf_trainer *none = NULL;
    (void)unused;
    const char *samplers[] = {"poisson:0.2", "cyclic:20", "shuffled:30", "block-cyclic:0.2,5"};
    for (int i = 0; i < 4; i++) {
        plan.sampler = samplers[i];
        case_run r = case_begin(data, &plan);
        check_fails(DPMF_ERROR_ARGUMENT,
                    dpmf_trainer_create(data, r.mechanism, r.sampler, r.key, &plan.options, &none));
        dpmf_trainer_options o = plan.options;
        o.noiseless = 1;
        check_ok(dpmf_trainer_create(data, r.mechanism, r.sampler, r.key, &o, &r.trainer));
        case_close(&r);
    }
    plan = case_defaults();
    check_ok(dpmf_dataset_slice(data, 0, 100, &part));
    case_run r = case_begin(data, &plan);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_create(part, r.mechanism, r.sampler, r.key, NULL, &none));
    check_message("150 units, accepted: 100");
    case_close(&r);
    plan.sigma = 0;
    r = case_begin(data, &plan);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_create(data, r.mechanism, r.sampler, r.key, NULL, &none));
    check_message("no sigma");
    case_close(&r);
    assert_null(none);
    dpmf_dataset_free(part);
    dpmf_dataset_free(data);
}

static void test_any_allocation_of_a_trainer_may_fail(void **unused) {
    dpmf_dataset *data = case_data(17);
    double accuracy = 0, loss = 0;
    (void)unused;
    for (int i = 0; i < 4; i++) {
        case_plan plan = case_defaults();
        const int by_unit = i == 1;
        double schedule[20];
        for (int t = 0; t < 20; t++)
            schedule[t] = 1;
        plan.options.schedule = schedule;
        plan.options.by_unit = by_unit;
        plan.options.hidden = 3;
        plan.options.momentum = 0.5;
        if (i > 1) plan.options.optimizer = DPMF_OPTIMIZER_FTRL;
        if (i > 1) plan.options.constraint = i == 2 ? DPMF_WEIGHTS_SIMPLEX : DPMF_WEIGHTS_BALL, plan.options.radius = 1;
        if (i == 3) plan.options.regularizer = DPMF_REGULARIZER_L1, plan.options.l1 = 1;
        if (by_unit) plan.sampler = "cyclic:5";
        case_run r = case_begin(data, &plan);
        FAIL_EACH(dpmf_trainer_create(data, r.mechanism, r.sampler, r.key, &plan.options, &r.trainer));
        FAIL_EACH(dpmf_trainer_evaluate(r.trainer, data, &accuracy, &loss));
        case_close(&r);
    }
    dpmf_dataset_free(data);
}

static int stop_at_half(void *context, const char *what, double done) {
    (void)what;
    ++*(int *)context;
    return done >= 0.5;
}

static void test_a_cancelled_run_keeps_its_step_and_can_be_evaluated(void **unused) {
    dpmf_dataset *data = case_data(18);
    float x[] = {1, 2};
    int32_t label = 0;
    dpmf_dataset *other = NULL;
    case_plan plan = case_defaults();
    int calls = 0;
    double before = 0, after = 0, loss = 0;
    (void)unused;
    plan.options.run.progress = stop_at_half;
    plan.options.run.context = &calls;
    plan.options.noiseless = 1;
    plan.options.clip = INFINITY;
    case_run r = case_open(data, &plan);
    check_ok(dpmf_trainer_evaluate(r.trainer, data, &before, &loss));
    check_near(loss, log(CASE_CLASSES), 1e-7); /* zero weights: all classes alike */
    case_steps(&r, 10);
    check_fails(DPMF_ERROR_CANCELLED, dpmf_trainer_next(r.trainer));
    assert_int_equal(dpmf_trainer_step(r.trainer), 10);
    assert_int_equal(dpmf_trainer_steps(r.trainer), 20);
    assert_int_equal(calls, 11);
    check_ok(dpmf_trainer_evaluate(r.trainer, data, &after, &loss));
    assert_true(after > before && after > 0.4 && after <= 1);
    check_ok(dpmf_dataset_create(1, 2, 1, x, &label, NULL, &other));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_evaluate(r.trainer, other, &after, &loss));
    check_message("2 features");
    dpmf_dataset_free(other);
    case_close(&r);
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gradient_that_is_not_finite_releases_nothing),
        cmocka_unit_test(test_data_that_change_under_a_trainer_are_refused),
        cmocka_unit_test(test_trainer_options_out_of_range_are_refused),
        cmocka_unit_test(test_a_sampler_must_fit_the_mechanism_and_the_data),
        cmocka_unit_test(test_any_allocation_of_a_trainer_may_fail),
        cmocka_unit_test(test_a_cancelled_run_keeps_its_step_and_can_be_evaluated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
