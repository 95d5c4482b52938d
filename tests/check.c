/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates of check.h, by plain dense arithmetic. */
#include "check.h"

#include "base/memory.h"
#include "strategy.h"
#include "workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check_status_(dpmf_status got, dpmf_status expected, const char *call, const char *file, int line) {
    if (got == expected && (got == DPMF_OK || dpmf_last_error()[0] != '\0')) return;
    print_error("%s\n  gave '%s', expected '%s'; message: %s\n", call, dpmf_status_name(got),
                dpmf_status_name(expected), dpmf_last_error());
    _fail(file, line);
}

void check_near_(double got, double want, double tolerance, const char *what, const char *file, int line) {
    if (fabs(got - want) <= tolerance * fmax(1, fabs(want))) return;
    print_error("%s = %.17g, wanted %.17g, difference %.3g, tolerance %.3g\n", what, got, want, got - want, tolerance);
    _fail(file, line);
}

void check_message(const char *part) {
    if (strstr(dpmf_last_error(), part) != NULL) return;
    fail_msg("message '%s' does not hold '%s'", dpmf_last_error(), part);
}

double check_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-52 - 1;
}

static double *numbers(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

typedef dpmf_status (*linear_map)(const void *object, const double *x, double *y);

static dpmf_status workload_apply(const void *a, const double *x, double *y) {
    return dpmf_workload_apply(a, x, y);
}
static dpmf_status workload_solve(const void *a, const double *x, double *y) {
    return dpmf_workload_solve(a, x, y);
}
static dpmf_status strategy_apply(const void *c, const double *x, double *y) {
    return dpmf_strategy_apply(c, x, y);
}
static dpmf_status strategy_solve(const void *c, const double *x, double *y) {
    return dpmf_strategy_solve(c, x, y);
}

/* Column by column, by unit impulses. */
static double *dense_form(const void *object, int64_t n, linear_map map) {
    double *matrix = numbers(n * n), *unit = numbers(n), *column = numbers(n);
    for (int64_t j = 0; j < n; j++) {
        memset(unit, 0, (size_t)n * sizeof *unit);
        unit[j] = 1;
        check_ok(map(object, unit, column));
        for (int64_t t = 0; t < n; t++)
            matrix[t * n + j] = column[t];
    }
    free(unit);
    free(column);
    return matrix;
}

double *check_workload_matrix(const dpmf_workload *a) {
    return dense_form(a, dpmf_workload_steps(a), workload_apply);
}

double *check_strategy_matrix(const dpmf_strategy *c) {
    return dense_form(c, dpmf_strategy_steps(c), strategy_apply);
}

double *check_strategy_inverse(const dpmf_strategy *c) {
    return dense_form(c, dpmf_strategy_steps(c), strategy_solve);
}

static double largest(int64_t count, const double *x) {
    double value = 0;
    for (int64_t i = 0; i < count; i++)
        value = fmax(value, fabs(x[i]));
    return value;
}

static double *product(int64_t n, const double *left, const double *right) {
    double *out = numbers(n * n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++)
                out[i * n + j] += left[i * n + k] * right[k * n + j];
    return out;
}

static void assert_identity(int64_t n, const double *left, const double *right, double tolerance) {
    double *p = product(n, left, right), scale = fmax(1, largest(n * n, left) * largest(n * n, right));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            check_near(p[i * n + j] / scale, (i == j) / scale, tolerance);
    free(p);
}

static void assert_lower(int64_t n, const double *m, double scale) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            check_near(m[i * n + j] / scale, 0, 1e-14);
}

/* f(2x - 3y) = 2 f(x) - 3 f(y), in place and out of place the same. */
static void assert_linear(const void *object, int64_t n, linear_map map, double tolerance) {
    uint64_t seed = 7;
    double *x = numbers(n), *y = numbers(n), *z = numbers(n), *fx = numbers(n), *fy = numbers(n), *fz = numbers(n);
    for (int64_t t = 0; t < n; t++) {
        x[t] = check_random(&seed);
        y[t] = check_random(&seed);
        z[t] = 2 * x[t] - 3 * y[t];
    }
    check_ok(map(object, x, fx));
    check_ok(map(object, y, fy));
    check_ok(map(object, z, fz));
    double scale = 1 + largest(n, fx) + largest(n, fy);
    for (int64_t t = 0; t < n; t++)
        check_near(fz[t] / scale, (2 * fx[t] - 3 * fy[t]) / scale, tolerance);
    check_ok(map(object, z, z));
    for (int64_t t = 0; t < n; t++)
        check_near(z[t] / scale, fz[t] / scale, 1e-15);
    free(x), free(y), free(z), free(fx), free(fy), free(fz);
}

static int looks_toeplitz(int64_t n, const double *m, double tolerance) {
    double scale = fmax(1, largest(n * n, m));
    for (int64_t t = 1; t < n; t++)
        for (int64_t u = 1; u <= t; u++)
            if (fabs(m[t * n + u] - m[(t - 1) * n + u - 1]) > tolerance * scale) return 0;
    return 1;
}

/* ---- workloads ---- */

/* R A^-1 = Q row by row. */
static void assert_inverse_bands(const dpmf_workload *a, int64_t n, const double *inverse, double tolerance) {
    int q_bands = 0, r_bands = 0;
    double q[3], r[2], scale = fmax(1, largest(n * n, inverse));
    dpmf_workload_inverse_bands(a, &q_bands, &r_bands);
    if (q_bands < 0) {
        check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_workload_inverse_row(a, 0, q, r));
        return;
    }
    for (int64_t t = 0; t < n; t++) {
        check_ok(dpmf_workload_inverse_row(a, t, q, r));
        for (int64_t u = 0; u < n; u++) {
            double left = 0;
            for (int j = 0; j <= r_bands && j <= t; j++)
                left += r[j] * inverse[(t - j) * n + u];
            double right = u <= t && t - u <= q_bands ? q[t - u] : 0;
            check_near(left / scale, right / scale, tolerance);
        }
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_inverse_row(a, n, q, r));
}

/* The streaming forms, two columns at once, against the whole-vector ones. */
static void assert_workload_stream(const dpmf_workload *a, int64_t n, double tolerance) {
    uint64_t seed = 11;
    double *x[2] = {numbers(n), numbers(n)}, *y[2] = {numbers(n), numbers(n)};
    double *state = numbers(2 * dpmf_i_workload_buffers(a)), *back = numbers(2 * dpmf_i_workload_inverse_buffers(a));
    for (int64_t i = 0; i < 2 * n; i++)
        x[i % 2][i / 2] = check_random(&seed);
    for (int i = 0; i < 2; i++)
        check_ok(dpmf_workload_apply(a, x[i], y[i]));
    double scale = 1 + largest(n, y[0]) + largest(n, y[1]);
    for (int64_t t = 0; t < n; t++) {
        double in[2] = {x[0][t], x[1][t]}, out[2], again[2];
        dpmf_i_workload_step(a, t, 2, in, state, out);
        dpmf_i_workload_inverse_step(a, t, 2, out, back, again);
        for (int i = 0; i < 2; i++) {
            check_near(out[i] / scale, y[i][t] / scale, tolerance);
            check_near(again[i], in[i], tolerance * scale);
        }
    }
    free(x[0]), free(x[1]), free(y[0]), free(y[1]), free(state), free(back);
}

void check_workload(const dpmf_workload *a, double tolerance) {
    int64_t n = dpmf_workload_steps(a);
    double *matrix = check_workload_matrix(a), *inverse = dense_form(a, n, workload_solve), *norms = numbers(n);
    assert_lower(n, matrix, 1);
    assert_identity(n, matrix, inverse, tolerance);
    assert_identity(n, inverse, matrix, tolerance);
    assert_linear(a, n, workload_apply, tolerance);
    assert_linear(a, n, workload_solve, tolerance);
    assert_inverse_bands(a, n, inverse, tolerance);
    assert_workload_stream(a, n, tolerance);
    if (dpmf_workload_is_toeplitz(a)) assert_true(looks_toeplitz(n, matrix, tolerance));
    check_ok(dpmf_i_workload_column_norms(a, norms));
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t t = 0; t < n; t++)
            sum += matrix[t * n + j] * matrix[t * n + j];
        check_near(norms[j] / sqrt(sum), 1, tolerance);
    }
    free(matrix), free(inverse), free(norms);
}

/* ---- strategies ---- */

static void assert_columns(const dpmf_strategy *c, int64_t n, const double *matrix, double tolerance) {
    double *column = numbers(n), *norms = numbers(n), scale = fmax(1, largest(n * n, matrix));
    check_ok(dpmf_strategy_column_norms(c, norms));
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        check_ok(dpmf_strategy_column(c, j, column));
        for (int64_t t = 0; t < n; t++) {
            check_near(column[t] / scale, matrix[t * n + j] / scale, tolerance);
            sum += matrix[t * n + j] * matrix[t * n + j];
        }
        check_near(norms[j], sqrt(sum), tolerance);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_column(c, -1, column));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_column(c, n, column));
    free(column), free(norms);
}

/* A band claim and its rows against a dense form. */
static void assert_rows(int64_t n, const double *matrix, int64_t bands, const dpmf_strategy *c,
                        void (*row)(const dpmf_strategy *, int64_t, double *), double tolerance) {
    double *values = numbers(bands), scale = fmax(1, largest(n * n, matrix));
    assert_true(bands >= 1 && bands <= n);
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u + bands <= t; u++)
            check_near(matrix[t * n + u] / scale, 0, tolerance);
    for (int64_t t = 0; row != NULL && t < n; t++) {
        row(c, t, values);
        for (int64_t j = 0; j < bands; j++)
            check_near(values[j] / scale, j <= t ? matrix[t * n + t - j] / scale : 0, tolerance);
    }
    free(values);
}

static void assert_inverse_parts(const dpmf_strategy *c, int64_t n, const double *inverse, double tolerance) {
    double *values = numbers(n), scale = fmax(1, largest(n * n, inverse));
    for (int64_t t = 0; t < n && c->ops->inverse_part != NULL; t++) {
        int64_t first = t / 3, count = t - first + 1;
        c->ops->inverse_part(c, t, first, count, values);
        for (int64_t i = 0; i < count; i++)
            check_near(values[i] / scale, inverse[t * n + first + i] / scale, tolerance);
    }
    free(values);
}

static void assert_toeplitz_view(const dpmf_strategy *c, int64_t n, const double *matrix, const double *inverse,
                                 double tolerance) {
    int64_t count = 0, inverse_count = 0;
    const double *series = NULL, *inverse_series = NULL;
    if (!dpmf_i_strategy_toeplitz(c, &count, &series, &inverse_count, &inverse_series)) return;
    double scale = fmax(1, fmax(largest(n * n, matrix), largest(n * n, inverse)));
    assert_true(looks_toeplitz(n, matrix, tolerance) && looks_toeplitz(n, inverse, tolerance));
    for (int64_t t = 0; t < n; t++) {
        check_near((t < count ? series[t] : 0) / scale, matrix[t * n] / scale, tolerance);
        if (inverse_count > 0)
            check_near((t < inverse_count ? inverse_series[t] : 0) / scale, inverse[t * n] / scale, tolerance);
    }
}

/* The stream over three columns, and again from step n/2 on when the first half of the seeds is zero. */
static void assert_stream(const dpmf_strategy *c, int64_t n, const double *inverse, double tolerance) {
    uint64_t seed = 23;
    double scale = fmax(1, largest(n * n, inverse)), *z = numbers(3 * n), row[3], spare[3] = {9, 9, 9};
    double *state = numbers(3 * dpmf_strategy_buffers(c)), *late = numbers(3 * dpmf_strategy_buffers(c));
    for (int64_t i = 0; i < 3 * n; i++)
        z[i] = i < 3 * (n / 2) && i % 3 == 2 ? 0 : check_random(&seed);
    for (int64_t t = 0; t < n; t++) {
        check_ok(dpmf_strategy_step(c, t, 3, z + 3 * t, state, row));
        for (int i = 0; i < 3; i++) {
            double want = 0;
            for (int64_t u = 0; u <= t; u++)
                want += inverse[t * n + u] * z[3 * u + i];
            check_near(row[i] / scale, want / scale, tolerance);
        }
        if (t >= n / 2) {
            double only[1];
            check_ok(dpmf_strategy_step(c, t, 1, &z[3 * t + 2], late, only));
            check_near(only[0] / scale, row[2] / scale, tolerance);
        }
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_step(c, n, 3, z, state, spare));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_step(c, -1, 3, z, state, spare));
    assert_true(spare[0] == 9 && spare[1] == 9 && spare[2] == 9);
    free(z), free(state), free(late);
}

void check_strategy(const dpmf_strategy *c, double tolerance) {
    int64_t n = dpmf_strategy_steps(c);
    double *matrix = check_strategy_matrix(c), *inverse = check_strategy_inverse(c);
    assert_lower(n, matrix, fmax(1, largest(n * n, matrix)));
    assert_lower(n, inverse, fmax(1, largest(n * n, inverse)));
    assert_identity(n, matrix, inverse, tolerance);
    assert_identity(n, inverse, matrix, tolerance);
    assert_linear(c, n, strategy_apply, tolerance);
    assert_linear(c, n, strategy_solve, tolerance);
    assert_columns(c, n, matrix, tolerance);
    assert_rows(n, matrix, dpmf_i_strategy_bands(c), c, c->ops->row, tolerance);
    assert_rows(n, inverse, dpmf_i_strategy_inverse_bands(c), c, c->ops->inverse_row, tolerance);
    assert_inverse_parts(c, n, inverse, tolerance);
    assert_toeplitz_view(c, n, matrix, inverse, tolerance);
    assert_stream(c, n, inverse, tolerance);
    free(matrix), free(inverse);
}

void check_factorization(const dpmf_workload *a, const dpmf_strategy *c, double tolerance) {
    int64_t n = dpmf_workload_steps(a);
    double *dense_a = check_workload_matrix(a), *dense_c = check_strategy_matrix(c);
    double *inverse = check_strategy_inverse(c), *b = product(n, dense_a, inverse), *again = product(n, b, dense_c);
    double *errors = numbers(n), scale = fmax(1, largest(n * n, dense_a));
    for (int64_t i = 0; i < n * n; i++)
        check_near(again[i] / scale, dense_a[i] / scale, tolerance);

    dpmf_evaluation e;
    double total = 0, worst = 0, sensitivity = 0;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t t = 0; t < n; t++)
            sum += dense_c[t * n + j] * dense_c[t * n + j];
        sensitivity = fmax(sensitivity, sqrt(sum));
    }
    check_ok(dpmf_error_compute(a, c, NULL, errors));
    for (int64_t t = 0; t < n; t++) {
        double sum = 0;
        for (int64_t u = 0; u < n; u++)
            sum += b[t * n + u] * b[t * n + u];
        check_near(errors[t] / sqrt(sum), 1, tolerance);
        total += sum;
        worst = fmax(worst, sqrt(sum));
    }
    check_ok(dpmf_evaluate(a, NULL, c, NULL, &e, errors));
    check_near(e.sensitivity.value, sensitivity, tolerance);
    assert_int_equal(e.sensitivity.kind, DPMF_EXACT);
    check_near(e.total_squared_loss / (sensitivity * sensitivity * total), 1, tolerance);
    check_near(e.rms_loss / (sensitivity * sqrt(total / (double)n)), 1, tolerance);
    check_near(e.max_loss / (sensitivity * worst), 1, tolerance);
    free(dense_a), free(dense_c), free(inverse), free(b), free(again), free(errors);
}
