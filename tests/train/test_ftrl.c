/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follow the regularized leader: weights against the conditions for an optimum and against a search over a grid, and whole runs
 * against the definition, with the minimum found by bisection.
 */
#include "support/train_cases.h"

#include <stdlib.h>

typedef struct form {
    dpmf_weight_set constraint;
    double radius;
    dpmf_regularizer regularizer;
    double l1;
} form;

static const form FORMS[] = {
    {DPMF_WEIGHTS_FREE, 0, DPMF_REGULARIZER_SQUARED, 0},   {DPMF_WEIGHTS_BALL, 0.6, DPMF_REGULARIZER_SQUARED, 0},
    {DPMF_WEIGHTS_BOX, 0.05, DPMF_REGULARIZER_SQUARED, 0}, {DPMF_WEIGHTS_SIMPLEX, 2, DPMF_REGULARIZER_SQUARED, 0},
    {DPMF_WEIGHTS_FREE, 0, DPMF_REGULARIZER_L1, 0.01},     {DPMF_WEIGHTS_BALL, 0.5, DPMF_REGULARIZER_L1, 0.01},
    {DPMF_WEIGHTS_BOX, 0.04, DPMF_REGULARIZER_L1, 0.02},   {DPMF_WEIGHTS_SIMPLEX, 3, DPMF_REGULARIZER_ENTROPY, 0},
};
enum { FORM_COUNT = sizeof FORMS / sizeof *FORMS };

static dpmf_trainer_options options_of(const form *f) {
    dpmf_trainer_options o = dpmf_trainer_options_defaults();
    o.optimizer = DPMF_OPTIMIZER_FTRL;
    o.constraint = f->constraint;
    o.radius = f->radius;
    o.regularizer = f->regularizer;
    o.l1 = f->l1;
    return o;
}

/* The answer of the trainer in float; z may be moved, so that it gets a copy. */
static void answer_of(const form *f, int64_t dim, double threshold, const float *z, float *weights) {
    const dpmf_trainer_options o = options_of(f);
    float *copy = malloc((size_t)dim * sizeof *copy);
    train_leader leader;
    memcpy(copy, z, (size_t)dim * sizeof *copy);
    check_ok(train_leader_open(&o, dim, &leader));
    train_leader_weights(&leader, dim, threshold, copy, weights);
    train_leader_close(&leader);
    free(copy);
}

/* ---- the projections ---- */

/* The largest <direction, v> over the set: w is the best point for a smooth convex f if and only if <-f', w> attains it. */
static double support_of(const form *f, int64_t dim, const double *direction) {
    double square = 0, sum = 0, largest = -INFINITY;
    for (int64_t i = 0; i < dim; i++) {
        square += direction[i] * direction[i];
        sum += fabs(direction[i]);
        largest = fmax(largest, direction[i]);
    }
    if (f->constraint == DPMF_WEIGHTS_BALL) return f->radius * sqrt(square);
    return f->radius * (f->constraint == DPMF_WEIGHTS_BOX ? sum : largest);
}

static void check_feasible(const form *f, int64_t dim, const float *w) {
    double square = 0, sum = 0, largest = 0;
    for (int64_t i = 0; i < dim; i++) {
        square += (double)w[i] * (double)w[i];
        sum += (double)w[i];
        largest = fmax(largest, fabs((double)w[i]));
        if (f->constraint == DPMF_WEIGHTS_SIMPLEX) assert_true(w[i] >= 0);
    }
    if (f->constraint == DPMF_WEIGHTS_BALL) assert_true(sqrt(square) <= f->radius * (1 + 1e-7));
    if (f->constraint == DPMF_WEIGHTS_BOX) assert_true(largest <= f->radius * (1 + 1e-7));
    if (f->constraint == DPMF_WEIGHTS_SIMPLEX) check_near(sum, f->radius, 1e-6 * f->radius);
}

/*
 * Random z of many sizes: w is feasible, and no direction within the set improves the objective. The part of the penalty that
 * has no derivative takes the subgradient that is best for w, within [-threshold, threshold] where w_i = 0.
 */
static void test_weights_satisfy_the_conditions_for_an_optimum(void **unused) {
    enum { DIM = 40 };
    uint64_t seed = 5;
    int moved[FORM_COUNT] = {0};
    (void)unused;
    for (int trial = 0; trial < 400; trial++) {
        const form *f = &FORMS[trial % FORM_COUNT];
        const double size = pow(10, 1.5 * check_random(&seed)), threshold = f->l1 > 0 ? 0.3 * size : 0;
        const int64_t dim = 1 + trial % DIM;
        float z[DIM], w[DIM];
        double slope[DIM], reached = 0, spread = 1e-6 * (size + f->radius);
        for (int64_t i = 0; i < dim; i++)
            z[i] = (float)(size * check_random(&seed) + (trial % 3 == 0 ? 100 * size : 0));
        if (trial % 5 == 0) z[dim - 1] = z[0]; /* ties */
        spread += 1e-7 * fabs((double)z[0]);
        answer_of(f, dim, threshold, z, w);
        check_feasible(f, dim, w);
        moved[trial % FORM_COUNT] += memcmp(z, w, (size_t)dim * sizeof *w) != 0;
        for (int64_t i = 0; i < dim; i++) {
            const double x = (double)w[i], free = (double)z[i] - x;
            if (f->regularizer == DPMF_REGULARIZER_ENTROPY)
                slope[i] = (double)z[i] - log(fmax(x, 1e-300));
            else
                slope[i] = x != 0 ? free - copysign(threshold, x) : copysign(fmax(fabs(free) - threshold, 0), free);
            reached += slope[i] * x;
        }
        for (int64_t i = 0; f->constraint == DPMF_WEIGHTS_FREE && i < dim; i++)
            assert_true(fabs(slope[i]) <= spread);
        if (f->regularizer == DPMF_REGULARIZER_ENTROPY) {
            for (int64_t i = 0; i < dim; i++) /* the same derivative everywhere */
                if (w[i] > 0x1p-100f)
                    assert_true(fabs(slope[i] - reached / f->radius) <= 1e-5 * (size + 1) + 10 * spread);
        } else if (f->constraint != DPMF_WEIGHTS_FREE) {
            const double best = support_of(f, dim, slope);
            assert_true(reached >= best - (double)dim * spread * (1 + f->radius));
        }
    }
    for (int i = 1; i < FORM_COUNT; i++) /* the cases are not trivial */
        assert_true(moved[i] >= 30);
    assert_int_equal(moved[0], 0);
}

/* Two weights: no point of a fine grid over the set is better, and one of them is about as good. */
static void test_no_point_of_a_grid_is_better(void **unused) {
    enum { SIDE = 400 };
    const float cases[][2] = {{0.3f, -0.2f}, {4, 1}, {-2, 5}, {1.5f, 1.5f}, {-3, -3}, {0.01f, -7}};
    (void)unused;
    for (int k = 0; k < FORM_COUNT * 6; k++) {
        const form *f = &FORMS[k % FORM_COUNT];
        const float *z = cases[k / FORM_COUNT];
        const double threshold = f->l1 > 0 ? 0.5 : 0, reach = f->radius > 0 ? f->radius : 8;
        const int entropy = f->regularizer == DPMF_REGULARIZER_ENTROPY;
        double best = INFINITY;
        float w[2];
        answer_of(f, 2, threshold, z, w);
#define VALUE(x, y)                                                                                                    \
    (entropy ? -(double)z[0] * (x) - (double)z[1] * (y) + ((x) > 0 ? (x)*log(x) : 0) + ((y) > 0 ? (y)*log(y) : 0)      \
             : 0.5 * ((x) - (double)z[0]) * ((x) - (double)z[0]) + 0.5 * ((y) - (double)z[1]) * ((y) - (double)z[1]) + \
                   threshold * (fabs(x) + fabs(y)))
        for (int i = -SIDE; i <= SIDE; i++)
            for (int j = -SIDE; j <= SIDE; j++) {
                double x = reach * i / SIDE, y = reach * j / SIDE;
                if (f->constraint == DPMF_WEIGHTS_BALL && x * x + y * y > reach * reach) continue;
                if (f->constraint == DPMF_WEIGHTS_SIMPLEX) {
                    if (i < 0 || j != 0) continue;
                    y = reach - x;
                }
                best = fmin(best, VALUE(x, y));
            }
        const double own = VALUE((double)w[0], (double)w[1]);
        assert_true(own <= best + 1e-5);
        assert_true(own >= best - 0.1);
#undef VALUE
    }
}

/* The definition: the minimum over the set, its multiplier by bisection. */
static void reference_weights(const form *f, int64_t dim, double penalty, const double *z, double *w) {
    double low = -1e4, high = 1e4;
    for (int k = 0; k < 200; k++) {
        const double middle = (low + high) / 2, multiplier = exp(fabs(middle) / 100) - 1;
        double square = 0, sum = 0;
        for (int64_t i = 0; i < dim; i++) {
            const double x = z[i] > penalty ? z[i] - penalty : z[i] < -penalty ? z[i] + penalty : 0;
            if (f->regularizer == DPMF_REGULARIZER_ENTROPY)
                w[i] = exp(z[i] - middle);
            else if (f->constraint == DPMF_WEIGHTS_SIMPLEX)
                w[i] = z[i] > middle ? z[i] - middle : 0;
            else if (f->constraint == DPMF_WEIGHTS_BALL)
                w[i] = middle > 0 ? x / (1 + multiplier) : x;
            else if (f->constraint == DPMF_WEIGHTS_BOX)
                w[i] = x > f->radius ? f->radius : x < -f->radius ? -f->radius : x;
            else
                w[i] = x;
            square += w[i] * w[i];
            sum += w[i];
        }
        if (f->constraint == DPMF_WEIGHTS_SIMPLEX ? sum > f->radius : sqrt(square) > f->radius)
            low = middle;
        else
            high = middle;
    }
}

/* Entries of every size: rounds that drop the smallest do not end, and the rest is sorted. A radius that is far below the entries too. */
static void test_entries_of_very_different_sizes_reach_the_simplex(void **unused) {
    enum { DIM = 120 };
    (void)unused;
    for (int k = 0; k < 60; k++) {
        const form f = {DPMF_WEIGHTS_SIMPLEX, pow(10, k % 6 - 4), DPMF_REGULARIZER_SQUARED, 0};
        float z[DIM], w[DIM];
        double exact[DIM], own[DIM];
        for (int i = 0; i < DIM; i++) {
            z[(i * 7 + k) % DIM] = (float)((k % 2 ? 1 : 0) - ldexp(f.radius, i - 20 - k / 6));
            exact[(i * 7 + k) % DIM] = (double)z[(i * 7 + k) % DIM];
        }
        answer_of(&f, DIM, 0, z, w);
        check_feasible(&f, DIM, w);
        reference_weights(&f, DIM, 0, exact, own);
        for (int i = 0; i < DIM; i++)
            check_near((double)w[i], own[i], 1e-6 * (f.radius + fabs(own[i])));
    }
}

/* What a constraint would hide: weights of a dual vector that is no longer finite. */
static void test_a_dual_vector_that_is_not_finite_is_shown(void **unused) {
    (void)unused;
    for (int k = 0; k < FORM_COUNT * 2; k++) {
        const float z[3] = {1, k < FORM_COUNT ? INFINITY : NAN, 2};
        float w[3] = {0};
        answer_of(&FORMS[k % FORM_COUNT], 3, FORMS[k % FORM_COUNT].l1, z, w);
        for (int i = 0; i < 3; i++)
            assert_true(isnan(w[i]));
    }
}

/* ---- runs ---- */

/* Every step of private runs with momentum and a schedule: the argmin over all private sums so far, from the beginning. */
static void test_runs_are_the_argmin_over_all_private_sums(void **unused) {
    enum { STEPS = 20 };
    dpmf_dataset *data = case_data(31);
    double schedule[STEPS];
    (void)unused;
    for (int t = 0; t < STEPS; t++)
        schedule[t] = t % 7 == 3 ? 0 : 1.0 / (1 + t % 4);
    for (int k = 0; k < FORM_COUNT * 3; k++) {
        const form *f = &FORMS[k % FORM_COUNT];
        const double momentum = k / FORM_COUNT == 1 ? 0.8 : 0;
        case_plan plan = case_defaults();
        plan.options = options_of(f);
        plan.options.run.threads = 1;
        plan.options.hidden = k / FORM_COUNT == 2 ? 6 : 0;
        plan.options.momentum = momentum;
        plan.options.nesterov = momentum > 0 && k % 2;
        plan.options.schedule = k / FORM_COUNT > 0 ? schedule : NULL;
        plan.family = "bsr";
        plan.bands = 4;
        case_run r = case_open(data, &plan);
        const int64_t dim = r.trainer->model.dim;
        double *z = calloc((size_t)dim, sizeof *z), *m = calloc((size_t)dim, sizeof *m),
               *w = calloc((size_t)dim, sizeof *w);
        float *start = malloc((size_t)dim * sizeof *start), *greedy = malloc((size_t)dim * sizeof *greedy);
        double passed = 0, apart = 0;
        check_ok(train_model_start(&r.trainer->model, plan.options.seed, start));
        for (int64_t i = 0; i < dim; i++)
            z[i] = f->regularizer == DPMF_REGULARIZER_ENTROPY ? 0 : (double)start[i];
        reference_weights(f, dim, 0, z,
                          w); /* the first weights are the point of the set that is nearest to the model's */
        for (int64_t i = 0; i < dim; i++) {
            check_near((double)r.trainer->weights[i], w[i], 1e-5);
            if (f->regularizer != DPMF_REGULARIZER_ENTROPY) z[i] = w[i];
            greedy[i] = r.trainer->weights[i];
        }
        for (int t = 0; t < STEPS; t++) {
            const double factor = plan.options.schedule != NULL ? schedule[t] : 1, rate = 0.5 * factor;
            case_steps(&r, 1);
            passed += factor;
            for (int64_t i = 0; i < dim; i++) {
                const double g = (double)r.trainer->released[i] / dpmf_sampler_get(r.sampler).expected;
                m[i] = momentum * m[i] + g;
                z[i] -= rate * (plan.options.nesterov ? g + momentum * m[i] : m[i]);
                greedy[i] -= (float)(rate * m[i]);
            }
            reference_weights(f, dim, 0.5 * f->l1 * passed, z, w);
            answer_of(f, dim, 0.5 * f->l1 * factor, greedy, greedy);
            for (int64_t i = 0; i < dim; i++) {
                check_near((double)r.trainer->weights[i], w[i], 2e-5 * (1 + f->radius));
                apart = fmax(apart, fabs((double)greedy[i] - w[i]));
            }
        }
        /* Projecting in every step, and forgetting what was outside, is another algorithm. */
        if (momentum == 0 && f->constraint != DPMF_WEIGHTS_FREE && f->regularizer != DPMF_REGULARIZER_ENTROPY)
            assert_true(apart > 0.01 * f->radius);
        free(z);
        free(m);
        free(w);
        free(start);
        free(greedy);
        case_close(&r);
    }
    dpmf_dataset_free(data);
}

/* Pillutla et al. 2025, Section 1.10.2: without a constraint and with the squared distance the iterates are those of SGD. */
static void test_without_a_constraint_the_bits_are_those_of_sgd(void **unused) {
    dpmf_dataset *data = case_data(32);
    double schedule[20];
    (void)unused;
    for (int t = 0; t < 20; t++)
        schedule[t] = 1 - t / 20.0;
    for (int k = 0; k < 3; k++) {
        case_plan plan = case_defaults();
        plan.options.noiseless = 1; /* else the noise of one is not that of the other */
        plan.options.hidden = k == 1 ? 5 : 0;
        plan.options.momentum = k > 0 ? 0.9 : 0;
        plan.options.nesterov = k == 2;
        plan.options.schedule = schedule;
        case_run sgd = case_open(data, &plan);
        plan.options.optimizer = DPMF_OPTIMIZER_FTRL;
        case_run ftrl = case_open(data, &plan);
        for (int t = 0; t < 20; t++) {
            case_steps(&sgd, 1);
            case_steps(&ftrl, 1);
            check_same_weights(&sgd, &ftrl);
        }
        case_close(&sgd);
        case_close(&ftrl);
    }
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_satisfy_the_conditions_for_an_optimum),
        cmocka_unit_test(test_no_point_of_a_grid_is_better),
        cmocka_unit_test(test_entries_of_very_different_sizes_reach_the_simplex),
        cmocka_unit_test(test_a_dual_vector_that_is_not_finite_is_shown),
        cmocka_unit_test(test_runs_are_the_argmin_over_all_private_sums),
        cmocka_unit_test(test_without_a_constraint_the_bits_are_those_of_sgd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
