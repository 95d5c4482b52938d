/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the Toeplitz optimizers: errors and squared sensitivities against plain sums, every gradient
 * against differences, the steady state against all steps, divergence.
 */
#include "families/toeplitz/toeplitz.h"

#include "oracle/oracle.h"
#include "support/check.h"
#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static dpmf_participation *participation_of(const char *text, int64_t steps) {
    dpmf_participation *p = NULL;
    check_ok(dpmf_participation_parse(text, steps, &p));
    return p;
}

static double *numbers(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

/* A stable start near what optima look like: 1/(i+1) + shift, a little disturbed. */
static void coefficients(int64_t bands, double shift, uint64_t seed, double *c) {
    for (int64_t i = 0; i < bands; i++)
        c[i] = 1 / (double)(i + 1) + shift * (1 - 0.5 * (double)i / (double)bands) * (1 + 0.05 * check_random(&seed));
}

/* ---- values and gradients ---- */

/* sum_i u_i w_i^2 in long double, from the dense definition. */
static double plain_error(const dpmf_workload *a, int64_t bands, dpmf_loss loss, const double *p, const double *c) {
    const int64_t n = a->steps;
    double *column = numbers(n);
    long double *w = calloc((size_t)n, sizeof *w), sum = 0, *u = calloc((size_t)n + 1, sizeof *u);
    assert_non_null(w);
    assert_non_null(u);
    column[0] = 1;
    check_ok(dpmf_workload_apply(a, column, column));
    for (int64_t i = n - 1; i >= 0; i--)
        u[i] = u[i + 1] + (p == NULL ? 1 : (long double)p[i]) / (long double)n;
    for (int64_t i = 0; i < n; i++) {
        long double here = column[i];
        for (int64_t j = 1; j < bands && j <= i; j++)
            here -= (long double)c[j] * w[i - j];
        w[i] = here / c[0];
        sum += (loss == DPMF_LOSS_MAX ? 1 : u[i]) * w[i] * w[i];
    }
    free(column), free(w), free(u);
    return (double)sum;
}

typedef double (*function)(void *context, const double *x);

/* Every entry of the gradient against central differences of the function. */
static void check_gradient(const char *what, int64_t count, const double *x, const double *gradient, function f,
                           void *context, double tolerance) {
    double *moved = numbers(count), scale = 0;
    memcpy(moved, x, (size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        scale = fmax(scale, fabs(gradient[i]));
    for (int64_t i = 0; i < count; i++) {
        const double step = 1e-4;
        double d[2];
        for (int k = 0; k < 2; k++) { /* two sizes and the extrapolation of their differences */
            double h = k == 0 ? step : step / 2;
            moved[i] = x[i] + h;
            double up = f(context, moved);
            moved[i] = x[i] - h;
            double down = f(context, moved);
            d[k] = (up - down) / (2 * h);
        }
        moved[i] = x[i];
        double want = (4 * d[1] - d[0]) / 3;
        if (!(fabs(gradient[i] - want) <= tolerance * scale + 1e-9))
            fail_msg("%s: derivative %lld is %.12g, differences say %.12g", what, (long long)i, gradient[i], want);
    }
    free(moved);
}

static double error_at(void *context, const double *c) {
    double value = 0;
    check_ok(toeplitz_error_value(context, c, &value, NULL));
    return value;
}

static void check_error(const char *text, int64_t n, int64_t bands, dpmf_loss loss, int weighted) {
    dpmf_workload *a = workload_of(text, n);
    double *c = numbers(bands), *gradient = numbers(bands), *p = numbers(n), value = 0;
    toeplitz_error e = {0};
    for (int64_t t = 0; t < n; t++)
        p[t] = 1 + 0.5 * sin((double)t);
    coefficients(bands, 0.3, 11, c);
    check_ok(toeplitz_error_create(a, bands, loss, weighted ? p : NULL, &e));
    check_ok(toeplitz_error_value(&e, c, &value, gradient));
    check_near(value / plain_error(a, bands, loss, weighted ? p : NULL, c), 1, 1e-12);
    check_gradient(text, bands, c, gradient, error_at, &e, 1e-8);
    toeplitz_error_free(&e);
    dpmf_workload_free(a);
    free(c), free(gradient), free(p);
}

static void test_errors_of_bands_and_their_gradients_are_right(void **unused) {
    static const char *const texts[] = {"prefix",         "momentum:0.9",           "nesterov:0.9",
                                        "decay:0.001",    "momentum:0.5,decay:0.6", "nesterov:0.95,decay:0.0001",
                                        "momentum:0.9999"};
    static const int64_t sizes[] = {1, 2, 20, 90, 1000}, bands[] = {1, 2, 6, 20};
    (void)unused;
    for (int w = 0; w < 7; w++)
        for (int s = 0; s < 5; s++)
            for (int b = 0; b < 4; b++)
                for (int k = 0; k < 3 && bands[b] <= sizes[s]; k++)
                    check_error(texts[w], sizes[s], bands[b], k == 0 ? DPMF_LOSS_MAX : DPMF_LOSS_RMS, k == 2);
}

/* Many bands go by transforms, with the same answers. */
static void test_many_bands_go_by_transforms_with_the_same_answers(void **unused) {
    const int64_t n = 1200;
    dpmf_workload *a = workload_of("nesterov:0.9", n);
    double *c = numbers(n), *gradient = numbers(n), *p = numbers(n), value = 0;
    (void)unused;
    for (int64_t t = 0; t < n; t++)
        p[t] = 1 + 0.5 * sin((double)t);
    check_ok(workload_series(a, 0.5, n, c));
    for (int64_t bands = 800; bands <= n; bands += 400) {
        toeplitz_error e = {0};
        check_ok(toeplitz_error_create(a, bands, DPMF_LOSS_RMS, p, &e));
        assert_true(e.by_transforms);
        check_ok(toeplitz_error_value(&e, c, &value, gradient));
        check_near(value / plain_error(a, bands, DPMF_LOSS_RMS, p, c), 1, 1e-12);
        /* along a few directions: one entry at a time would take long */
        for (int k = 0; k < 6; k++) {
            int64_t i = k < 5 ? k * bands / 5 : bands - 1;
            double h = 1e-5, kept = c[i], up = 0, down = 0;
            c[i] = kept + h;
            up = error_at(&e, c);
            c[i] = kept - h;
            down = error_at(&e, c);
            c[i] = kept;
            check_near((up - down) / (2 * h) / gradient[0], gradient[i] / gradient[0], 1e-7);
        }
        c[0] = 1e-300; /* the inverse passes the range of a double */
        check_ok(toeplitz_error_value(&e, c, &value, gradient));
        assert_true(value == INFINITY);
        check_ok(workload_series(a, 0.5, n, c));
        toeplitz_error_free(&e);
    }
    dpmf_workload_free(a);
    free(c), free(gradient), free(p);
}

/* The steady state against all steps; slow modes too, down to zeros of c(z) 1e-4 from the unit circle. */
static void test_the_steady_state_gives_the_error_of_all_steps(void **unused) {
    static const char *const texts[] = {"prefix", "momentum:0.9", "nesterov:0.95", "decay:0.00001"};
    const int64_t n = 400000, bands = 32;
    double c[32];
    (void)unused;
    for (int w = 0; w < 4; w++)
        for (int l = 0; l < 2; l++)
            for (double shift = 0.1; shift < 2000; shift *= 7) {
                dpmf_workload *a = workload_of(texts[w], n);
                toeplitz_error e = {0};
                double value = 0, direct = 0;
                for (int i = 0; i < bands; i++)
                    c[i] = 1.0 / (i + 1) + shift;
                check_ok(toeplitz_error_create(a, bands, (dpmf_loss)l, NULL, &e));
                check_ok(toeplitz_error_value(&e, c, &value, NULL));
                check_ok(oracle_toeplitz_error(a, bands, c, (dpmf_loss)l, &direct));
                check_near(value / direct, 1, 2e-12); /* that of the direct sum, where modes are slow */
                if (shift < 1) assert_true(e.used < n / 8);
                toeplitz_error_free(&e);
                dpmf_workload_free(a);
            }
}

static void test_diverging_coefficients_have_infinite_error(void **unused) {
    dpmf_workload *a = workload_of("prefix", 1000000);
    toeplitz_error e = {0};
    const double cases[][3] = {{1, 1.2, 0}, {1, -1.5, 0}, {-1, 0.5, 0.1}, {0, 1, 1}, {1, NAN, 0}, {1, 1.8, 1.02}};
    double value = 0, gradient[3];
    (void)unused;
    check_ok(toeplitz_error_create(a, 3, DPMF_LOSS_RMS, NULL, &e));
    for (int i = 0; i < 6; i++) {
        check_ok(toeplitz_error_value(&e, cases[i], &value, gradient));
        assert_true(value == INFINITY);
    }
    toeplitz_error_free(&e);
    dpmf_workload_free(a);
}

/* B is Toeplitz: its row norms rise, and the last is the max loss that the optimizer minimizes. */
static void test_the_last_row_is_the_largest(void **unused) {
    const int64_t n = 50;
    dpmf_workload *a = workload_of("nesterov:0.9,decay:0.1", n);
    dpmf_strategy *s = NULL;
    double c[8], errors[50];
    (void)unused;
    coefficients(8, 0.2, 1, c);
    check_ok(dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ_BANDED, 8, c, &s));
    check_ok(dpmf_error_compute(a, s, NULL, errors));
    for (int64_t t = 1; t < n; t++)
        assert_true(errors[t] >= errors[t - 1]);
    check_near(errors[n - 1] * errors[n - 1] / plain_error(a, 8, DPMF_LOSS_MAX, NULL, c), 1, 1e-13);
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

/* ---- sensitivity ---- */

typedef struct squared {
    toeplitz_pattern pattern;
    int64_t bands;
} squared;

static double square_at(void *context, const double *c) {
    const squared *s = context;
    double value = 0;
    check_ok(toeplitz_square(&s->pattern, s->bands, c, &value, NULL));
    return value;
}

/* Against the sum of columns, and, where it claims to be, against the sensitivity. */
static void test_squared_sensitivities_are_sums_of_columns(void **unused) {
    static const struct {
        const char *participation;
        int64_t n;
    } cases[] = {{"single", 30}, {"cyclic:4,8", 30}, {"minsep:3,8", 30},   {"minsep:4,7", 30},
                 {"full", 30},   {"minsep:9,3", 30}, {"cyclic:30,4", 118}, {"minsep:12,4", 118}};
    static const int64_t bands[] = {1, 3, 8, 9, 17, 30};
    (void)unused;
    for (int k = 0; k < 8; k++)
        for (int b = 0; b < 6; b++) {
            const int64_t n = cases[k].n;
            dpmf_participation *p = participation_of(cases[k].participation, n);
            dpmf_strategy *s = NULL;
            dpmf_sensitivity sensitivity;
            squared q = {.bands = bands[b]};
            double c[30], gradient[30], value = 0, sum = 0;
            coefficients(bands[b], 0, 1, c);
            check_ok(toeplitz_pattern_of(p, n, &q.pattern));
            check_ok(toeplitz_square(&q.pattern, q.bands, c, &value, gradient));
            for (int64_t t = 0; t < n; t++) {
                double here = 0;
                for (int64_t j = 0; j < q.pattern.k; j++)
                    if (t - j * q.pattern.b >= 0 && t - j * q.pattern.b < bands[b]) here += c[t - j * q.pattern.b];
                sum += here * here;
            }
            check_near(value / sum, 1, 1e-13);
            check_gradient(cases[k].participation, q.bands, c, gradient, square_at, &q, 1e-8);
            check_ok(
                dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ, bands[b], c, &s)); /* non-negative, does not rise */
            check_ok(dpmf_sensitivity_compute(s, p, NULL, &sensitivity));
            check_near(sensitivity.value * sensitivity.value / value, 1, 1e-12);
            assert_int_equal(sensitivity.kind, DPMF_EXACT);
            dpmf_strategy_free(s);
            dpmf_participation_free(p);
        }
}

/* ---- schedules and normalized columns ---- */

static double columns_at(void *context, const double *c) {
    double value = 0;
    check_ok(toeplitz_columns_value(context, c, &value, NULL));
    return value;
}

static void check_columns(const char *text, int64_t n, int64_t bands, int normalized, double sharpness) {
    dpmf_workload *a = workload_of(text, n);
    toeplitz_columns e = {0};
    dpmf_strategy *plain = NULL, *s = NULL;
    double c[150], gradient[150], errors[150], p[150], value = 0, norm = 0, want = 0;
    for (int64_t t = 0; t < n; t++)
        p[t] = 1 + 0.5 * sin((double)t);
    coefficients(bands, 0.2, 7, c);
    check_ok(toeplitz_columns_create(a, bands, normalized, sharpness == 0 ? p : NULL, &e));
    e.sharpness = sharpness;
    check_ok(toeplitz_columns_value(&e, c, &value, gradient));
    check_gradient(text, bands, c, gradient, columns_at, &e, 2e-7);
    check_ok(dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ_BANDED, bands, c, &plain));
    check_ok(dpmf_strategy_create_normalized(plain, &s));
    check_ok(dpmf_error_compute(a, normalized ? s : plain, NULL, errors));
    for (int64_t i = 0; i < bands; i++)
        norm += c[i] * c[i];
    for (int64_t t = 0; t < n; t++) {
        double square = errors[t] * errors[t] / (normalized ? norm : 1);
        want += sharpness == 0 ? p[t] * square / (double)n : pow(square, sharpness);
    }
    check_near(value / (sharpness == 0 ? want : pow(want, 1 / sharpness)), 1, 1e-11);
    toeplitz_columns_free(&e);
    dpmf_strategy_free(s);
    dpmf_strategy_free(plain);
    dpmf_workload_free(a);
}

static void test_errors_of_normalized_columns_and_their_gradients_are_right(void **unused) {
    static const char *const texts[] = {"prefix", "nesterov:0.9,decay:0.01", "momentum:0.8,cooldown:0.4:0.1"};
    static const int64_t sizes[] = {1, 5, 64, 130}, bands[] = {1, 2, 5, 64, 130};
    (void)unused;
    for (int w = 0; w < 3; w++)
        for (int s = 0; s < 4; s++)
            for (int b = 0; b < 5 && bands[b] <= sizes[s]; b++)
                for (int k = 0; k < 4; k++)
                    if (b < 3 || k == 1) check_columns(texts[w], sizes[s], bands[b], k % 2, k < 2 ? 0 : 6);
}

/* ---- C^-1 of few bands ---- */

typedef struct inverse_case {
    optimize_task task;
    double barrier;
} inverse_case;

static double inverse_at(void *context, const double *h) {
    const inverse_case *k = context;
    double f = 0, gradient[MOST];
    check_ok(toeplitz_inverse_value(&k->task, k->barrier, h, &f, gradient));
    return f;
}

static void test_the_value_of_inverse_bands_is_their_log_loss(void **unused) {
    static const char *const texts[] = {"prefix", "momentum:0.9", "nesterov:0.9,decay:0.05"};
    static const char *const participations[] = {"single", "cyclic:3,40", "minsep:3,40", "full"};
    const int64_t n = 120;
    (void)unused;
    for (int w = 0; w < 3; w++)
        for (int q = 0; q < 4; q++)
            for (int64_t bands = 1; bands <= 10; bands += 3)
                for (int l = 0; l < 2; l++) {
                    dpmf_workload *a = workload_of(texts[w], n);
                    dpmf_participation *p = participation_of(participations[q], n);
                    dpmf_optimize_options o = {.loss = (dpmf_loss)l, .bands = bands};
                    inverse_case k = {{a, p, &o, NULL}, bands > 1 ? 1e-3 : 0};
                    dpmf_strategy *s = NULL;
                    dpmf_evaluation figures;
                    double h[MOST], gradient[MOST], f = 0;
                    for (int64_t i = 0; i < bands; i++)
                        h[i] = i == 0 ? 1 : -0.4 / ((double)i * (double)i);
                    check_ok(toeplitz_inverse_value(&k.task, k.barrier, h, &f, gradient));
                    check_gradient(texts[w], bands, h, gradient, inverse_at, &k, 1e-7);
                    check_ok(toeplitz_inverse_value(&k.task, 0, h, &f, gradient));
                    check_ok(dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ_INVERSE, bands, h, &s));
                    check_ok(dpmf_evaluate(a, p, s, NULL, &figures, NULL));
                    check_near(exp(f) / (l == 0 ? figures.rms_loss : figures.max_loss), 1, 1e-11);
                    dpmf_strategy_free(s);
                    dpmf_participation_free(p);
                    dpmf_workload_free(a);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_of_bands_and_their_gradients_are_right),
        cmocka_unit_test(test_many_bands_go_by_transforms_with_the_same_answers),
        cmocka_unit_test(test_the_steady_state_gives_the_error_of_all_steps),
        cmocka_unit_test(test_diverging_coefficients_have_infinite_error),
        cmocka_unit_test(test_the_last_row_is_the_largest),
        cmocka_unit_test(test_squared_sensitivities_are_sums_of_columns),
        cmocka_unit_test(test_errors_of_normalized_columns_and_their_gradients_are_right),
        cmocka_unit_test(test_the_value_of_inverse_bands_is_their_log_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
