/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses beside RMS and max: their values and derivatives, the optima of the families that take them, proven where that is
 * claimed, refused elsewhere by name; a caller's own loss does what the built-in one does.
 */
#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"
#include "problem/problem.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 24, MOST = 40 };

static double power_mean(double p, int64_t n, const double *q) {
    double sum = 0;
    for (int64_t t = 0; t < n; t++)
        sum += pow(q[t], p / 2) / (double)n;
    return pow(sum, 1 / p);
}

static void test_values_and_derivatives_are_those_of_the_definition(void **unused) {
    static const problem_loss kinds[] = {{DPMF_LOSS_RMS, 0, NULL},  {DPMF_LOSS_LP, 1, NULL},  {DPMF_LOSS_LP, 2, NULL},
                                         {DPMF_LOSS_LP, 3.5, NULL}, {DPMF_LOSS_LP, 40, NULL}, {DPMF_LOSS_MAX, 0, NULL},
                                         {DPMF_LOSS_LAST, 0, NULL}};
    uint64_t seed = 5;
    (void)unused;
    for (int i = 0; i < 200; i++) {
        const problem_loss *l = &kinds[i % 7];
        double q[MOST], gradient[MOST], scale = pow(10, 60 * check_random(&seed));
        const int64_t n = 1 + i % MOST;
        double most = 0;
        for (int64_t t = 0; t < n; t++)
            most = fmax(most, q[t] = scale * (1.1 + check_random(&seed)));
        const double value = problem_loss_value(l, n, q, gradient);
        const double wanted = l->kind == DPMF_LOSS_MAX    ? sqrt(most)
                              : l->kind == DPMF_LOSS_LAST ? sqrt(q[n - 1])
                                                          : sqrt(scale) * 1;
        if (l->kind == DPMF_LOSS_MAX || l->kind == DPMF_LOSS_LAST) {
            check_near(value / wanted, 1, 1e-14);
        } else {
            for (int64_t t = 0; t < n; t++)
                q[t] /= scale;
            check_near(value / wanted, power_mean(l->kind == DPMF_LOSS_RMS ? 2 : l->power, n, q), 1e-12);
            for (int64_t t = 0; t < n; t++)
                q[t] *= scale;
        }
        for (int64_t t = 0; t < n; t++) {
            const double held = q[t], step = 1e-6 * held;
            q[t] = held + step;
            const double above = problem_loss_value(l, n, q, NULL);
            q[t] = held - step;
            const double below = problem_loss_value(l, n, q, NULL);
            q[t] = held;
            if (l->kind == DPMF_LOSS_MAX && held > most * (1 - 1e-5)) continue; /* a corner */
            assert_true(fabs((above - below) / (2 * step) - gradient[t]) <= 1e-7 * value / held);
        }
    }
}

/* (mean q^2)^(1/4), as lp:4, counted. */
typedef struct own {
    int calls;
    double wrong; /* what it gives in the place of its value; 0: nothing */
} own;

static double lp4(void *context, int64_t n, const double *q, double *gradient) {
    own *o = context;
    double sum = 0;
    o->calls++;
    for (int64_t t = 0; t < n; t++)
        sum += q[t] * q[t] / (double)n;
    for (int64_t t = 0; t < n && gradient != NULL; t++)
        gradient[t] = pow(sum, -0.75) * q[t] / (2 * (double)n);
    return o->wrong != 0 ? o->wrong : pow(sum, 0.25);
}

/* sum of ln(1 + q): concave, and not a multiple when q is. */
static double logs(void *context, int64_t n, const double *q, double *gradient) {
    double sum = 0;
    (void)context;
    for (int64_t t = 0; t < n; t++) {
        sum += log1p(q[t]);
        if (gradient != NULL) gradient[t] = 1 / (1 + q[t]);
    }
    return sum;
}

typedef struct found {
    double loss;
    dpmf_optimization result;
} found;

static found best_of(const char *family, int64_t bands, const char *participation, dpmf_loss loss, double power,
                     const dpmf_loss_function *own_loss) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    dpmf_workload *a = workload_of("prefix", N);
    dpmf_participation *p = NULL;
    dpmf_strategy *s = NULL;
    dpmf_evaluation of = {0};
    found f = {0};
    o.loss = e.loss = loss;
    o.loss_power = e.loss_power = power;
    o.own_loss = e.own_loss = own_loss;
    o.bands = bands;
    e.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_participation_parse(participation, N, &p));
    check_ok(dpmf_optimize(family, a, p, &o, &s, &f.result));
    check_ok(dpmf_evaluate(a, p, s, &e, &of, NULL));
    f.loss = of.loss;
    dpmf_strategy_free(s);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
    return f;
}

static void test_optima_lie_between_those_of_rms_and_max_and_are_proven(void **unused) {
    static const char *const participations[] = {"single", "cyclic:3,8", "minsep:2,8"};
    static const double powers[] = {2, 3, 4, 8, 32};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        const found rms = best_of("banded", 6, participations[i], DPMF_LOSS_RMS, 0, NULL);
        const found max = best_of("banded", 6, participations[i], DPMF_LOSS_MAX, 0, NULL);
        double before = rms.loss * (1 - 1e-6);
        for (int j = 0; j < 5; j++) {
            const found f = best_of("banded", 6, participations[i], DPMF_LOSS_LP, powers[j], NULL);
            assert_non_null(f.result.scope);
            assert_true(f.loss <= f.result.optimum_upper * (1 + 1e-12) && f.result.optimum_lower <= f.loss);
            assert_true(f.result.optimum_upper <= f.result.optimum_lower * (1 + 1e-5));
            assert_true(f.loss >= before && f.loss <= max.loss * (1 + 1e-5));
            if (j == 0) check_near(f.loss / rms.loss, 1, 1e-6);
            before = f.loss * (1 - 1e-6);
        }
        const found last = best_of("banded", 6, participations[i], DPMF_LOSS_LAST, 0, NULL);
        assert_true(last.loss < max.loss && last.result.scope == NULL && last.result.optimum_lower == 0);
    }
}

/* The bound holds for C that no search made: random ones of the class, normalized. */
static void test_no_c_of_the_class_is_below_the_proven_bound(void **unused) {
    const found f = best_of("banded", 4, "single", DPMF_LOSS_LP, 6, NULL);
    dpmf_workload *a = workload_of("prefix", N);
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    uint64_t seed = 9;
    (void)unused;
    e.loss = DPMF_LOSS_LP;
    e.loss_power = 6;
    e.lower_bound = DPMF_LOWER_BOUND_NONE;
    for (int i = 0; i < 300; i++) {
        double rows[N * 4] = {0}, errors[N], sum = 0;
        dpmf_strategy *s = NULL;
        dpmf_evaluation of = {0};
        for (int t = 0; t < N; t++)
            for (int j = 0; j < 4 && j <= t; j++)
                rows[t * 4 + j] = j == 0 ? 1 : 0.5 / j + 0.2 * check_random(&seed);
        check_ok(dpmf_strategy_create_banded(N, 4, rows, &s));
        check_ok(dpmf_evaluate(a, NULL, s, &e, &of, errors));
        for (int t = 0; t < N; t++)
            sum += pow(errors[t], 6) / N;
        check_near(of.loss / pow(sum, 1.0 / 6), 1, 1e-12);
        assert_true(of.loss >= f.result.optimum_lower);
        dpmf_strategy_free(s);
    }
    dpmf_workload_free(a);
}

static void test_a_loss_of_your_own_finds_what_the_built_in_one_does(void **unused) {
    static const char *const families[] = {"banded", "toeplitz", "banded-toeplitz"};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        own counted = {0};
        const dpmf_loss_function convex = {lp4, &counted, 1}, unstated = {lp4, &counted, 0}, concave = {logs, NULL, 0};
        const int64_t bands = i == 1 ? 0 : 5;
        const found built_in = best_of(families[i], bands, "cyclic:3,8", DPMF_LOSS_LP, 4, NULL);
        const found mine = best_of(families[i], bands, "cyclic:3,8", DPMF_LOSS_OWN, 0, &convex);
        const found plain = best_of(families[i], bands, "cyclic:3,8", DPMF_LOSS_OWN, 0, &unstated);
        const found other = best_of(families[i], bands, "cyclic:3,8", DPMF_LOSS_OWN, 0, &concave);
        check_near(mine.loss / built_in.loss, 1, 1e-6);
        check_near(plain.loss / built_in.loss, 1, 1e-6);
        assert_true(counted.calls > 10);
        assert_true((mine.result.scope != NULL) == (i == 0) && plain.result.scope == NULL &&
                    other.result.scope == NULL);
        if (i == 0)
            assert_true(mine.result.optimum_lower <= mine.loss && mine.loss <= mine.result.optimum_lower * (1 + 1e-5));
        assert_true(other.result.stationarity < 1e-3); /* Toeplitz of any sign: of a smoothed sensitivity */
    }
}

/* theta are Toeplitz coefficients below 1: differences of exact evaluations find the same optimum. */
static dpmf_status make_toeplitz(void *context, const double *theta, dpmf_strategy **out) {
    double c[4] = {1, theta[0], theta[1], theta[2]};
    (void)context;
    return dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ_BANDED, 4, c, out);
}

static void test_families_by_parameters_agree_with_the_gradients(void **unused) {
    own counted = {0};
    const dpmf_loss_function mine = {lp4, &counted, 0};
    const dpmf_parametric family = {.parameters = 3, .make = make_toeplitz};
    dpmf_workload *a = workload_of("prefix", N);
    (void)unused;
    for (int i = 0; i < 3; i++) {
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
        double theta[3] = {0.5, 0.3, 0.2};
        dpmf_strategy *s = NULL;
        dpmf_optimization result = {0};
        dpmf_evaluation of = {0};
        o.loss = e.loss = i == 0 ? DPMF_LOSS_LP : i == 1 ? DPMF_LOSS_OWN : DPMF_LOSS_LAST;
        o.loss_power = e.loss_power = 4;
        o.own_loss = e.own_loss = &mine;
        check_ok(dpmf_optimize_parametric(&family, a, NULL, &o, theta, &s, &result));
        check_ok(dpmf_evaluate(a, NULL, s, &e, &of, NULL));
        check_near(of.loss / best_of("banded-toeplitz", 4, "single", o.loss, 4, &mine).loss, 1, 1e-6);
        dpmf_strategy_free(s);
    }
    dpmf_workload_free(a);
}

static void test_other_families_and_senseless_losses_are_refused(void **unused) {
    own nothing = {.wrong = NAN}, negative = {.wrong = -1};
    const dpmf_loss_function none = {NULL, NULL, 0}, nan_ = {lp4, &nothing, 0}, below = {lp4, &negative, 0};
    dpmf_workload *a = workload_of("prefix", N), *schedule = workload_of("cooldown:0.5:0.1", N);
    dpmf_strategy *s = NULL;
    dpmf_optimization result = {0};
    const dpmf_family *f;
    int refused = 0;
    (void)unused;
    for (int64_t i = 0; (f = dpmf_family_info(i)) != NULL; i++) {
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        if (!f->optimized || f->optimize_losses) continue;
        o.loss = i % 2 ? DPMF_LOSS_LAST : DPMF_LOSS_LP;
        o.loss_power = 4;
        o.bands = f->optimize_bands ? 3 : 0;
        o.buffers = f->optimize_buffers ? 2 : 0;
        check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize(f->name, a, NULL, &o, &s, &result));
        assert_non_null(strstr(dpmf_last_error(), f->name));
        assert_non_null(strstr(dpmf_last_error(), "banded, toeplitz and banded-toeplitz"));
        refused++;
    }
    assert_true(refused >= 4);
    static const double powers[] = {0, 0.5, -2, 1001, NAN, INFINITY};
    for (int i = 0; i < 12; i++) {
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        o.bands = 3;
        o.loss = i < 6 ? DPMF_LOSS_LP : DPMF_LOSS_OWN;
        o.loss_power = i < 6 ? powers[i] : 0;
        o.own_loss = i == 6 ? NULL : i == 7 ? &none : i < 10 ? &nan_ : &below;
        const char *family = i % 2 ? "banded" : "banded-toeplitz";
        const dpmf_status status = dpmf_optimize(family, a, NULL, &o, &s, &result);
        assert_true(status == DPMF_ERROR_ARGUMENT || (i > 7 && status == DPMF_ERROR_NUMERICAL));
        assert_null(s);
    }
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    o.loss = DPMF_LOSS_LP;
    o.loss_power = 4;
    o.bands = 3;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("banded-toeplitz", schedule, NULL, &o, &s, &result));
    check_ok(dpmf_optimize("banded", schedule, NULL, &o, NULL, &result));
    o.normalize = DPMF_NORMALIZE_WITHIN;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("banded-toeplitz", a, NULL, &o, &s, &result));
    dpmf_workload_free(a);
    dpmf_workload_free(schedule);
}

static void test_a_design_is_chosen_by_the_loss(void **unused) {
    static const struct {
        dpmf_loss loss;
        double power;
    } asked[] = {{DPMF_LOSS_LP, 1}, {DPMF_LOSS_LP, 3}, {DPMF_LOSS_LP, 16}, {DPMF_LOSS_LAST, 0}};
    dpmf_workload *a = workload_of("prefix", 60);
    (void)unused;
    for (int i = 0; i < 4; i++) {
        dpmf_design_options o = dpmf_design_options_defaults();
        dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
        dpmf_design *d = NULL;
        dpmf_mechanism *again = NULL;
        dpmf_evaluation of = {0};
        uint8_t *bytes = NULL;
        size_t size = 0;
        o.epochs = 3;
        o.epsilon = 1;
        o.delta = 1e-6;
        o.loss = e.loss = asked[i].loss;
        o.loss_power = e.loss_power = asked[i].power;
        check_ok(dpmf_design_create(a, &o, &d));
        const dpmf_mechanism_info m = dpmf_mechanism_get(dpmf_design_get(d).mechanism);
        const dpmf_candidate *chosen = dpmf_design_candidate(d, dpmf_design_get(d).chosen);
        check_ok(dpmf_evaluate(a, m.participation, m.strategy, &e, &of, NULL));
        check_near(chosen->loss / of.loss, 1, 1e-12);
        for (int64_t j = 0; j < dpmf_design_get(d).count; j++) {
            const dpmf_candidate *c = dpmf_design_candidate(d, j);
            assert_true(!c->eligible || c->noise >= chosen->noise / 1.001);
        }
        const int bounded = asked[i].loss == DPMF_LOSS_LP && asked[i].power >= 2;
        assert_true((chosen->ratio >= 1) == bounded && (chosen->ratio == 0) == !bounded);
        check_ok(dpmf_mechanism_encode(dpmf_design_get(d).mechanism, &bytes, &size));
        check_ok(dpmf_mechanism_decode(bytes, size, &again));
        assert_int_equal(dpmf_mechanism_get(again).designed.loss, asked[i].loss);
        assert_true(dpmf_mechanism_get(again).designed.loss_power == asked[i].power);
        dpmf_bytes_free(bytes);
        dpmf_mechanism_free(again);
        dpmf_design_free(d);
        o.loss = DPMF_LOSS_OWN;
        check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_design_create(a, &o, &d));
    }
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_derivatives_are_those_of_the_definition),
        cmocka_unit_test(test_optima_lie_between_those_of_rms_and_max_and_are_proven),
        cmocka_unit_test(test_no_c_of_the_class_is_below_the_proven_bound),
        cmocka_unit_test(test_a_loss_of_your_own_finds_what_the_built_in_one_does),
        cmocka_unit_test(test_families_by_parameters_agree_with_the_gradients),
        cmocka_unit_test(test_other_families_and_senseless_losses_are_refused),
        cmocka_unit_test(test_a_design_is_chosen_by_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
