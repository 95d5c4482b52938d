/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates of support/check.h, by plain dense arithmetic. */
#include "support/check.h"

#include "base/memory.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DPMF_TEST=PATTERN runs only the cases whose names match it, with any test program. */
__attribute__((constructor)) static void set_filter(void) {
    cmocka_set_test_filter(getenv("DPMF_TEST"));
}

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

dpmf_workload *workload_of(const char *text, int64_t steps) {
    dpmf_workload *a = NULL;
    check_ok(dpmf_workload_parse(text, steps, &a));
    return a;
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

/* Column by column, by unit impulses: rows x columns. */
static double *dense_form(const void *object, int64_t rows, int64_t columns, linear_map map) {
    double *matrix = numbers(rows * columns), *unit = numbers(columns), *column = numbers(rows);
    for (int64_t j = 0; j < columns; j++) {
        memset(unit, 0, (size_t)columns * sizeof *unit);
        unit[j] = 1;
        check_ok(map(object, unit, column));
        for (int64_t t = 0; t < rows; t++)
            matrix[t * columns + j] = column[t];
    }
    free(unit);
    free(column);
    return matrix;
}

double *check_workload_matrix(const dpmf_workload *a) {
    return dense_form(a, dpmf_workload_get(a).steps, dpmf_workload_get(a).steps, workload_apply);
}

double *check_strategy_matrix(const dpmf_strategy *c) {
    return dense_form(c, dpmf_strategy_get(c).rows, dpmf_strategy_get(c).steps, strategy_apply);
}

int check_blt(const dpmf_strategy *c, const double **scale, const double **gap) {
    const dpmf_strategy_info info = dpmf_strategy_get(c);
    *scale = info.blt_scale;
    *gap = info.blt_gap;
    return info.blt_buffers;
}

double *check_strategy_inverse(const dpmf_strategy *c) {
    return dense_form(c, dpmf_strategy_get(c).steps, dpmf_strategy_get(c).rows, strategy_solve);
}

static double largest(int64_t count, const double *x) {
    double value = 0;
    for (int64_t i = 0; i < count; i++)
        value = fmax(value, fabs(x[i]));
    return value;
}

/* left (rows x inner) times right (inner x columns). */
static double *product(int64_t rows, int64_t inner, int64_t columns, const double *left, const double *right) {
    double *out = numbers(rows * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < inner; k++)
            for (int64_t j = 0; j < columns; j++)
                out[i * columns + j] += left[i * inner + k] * right[k * columns + j];
    return out;
}

/* left (n x inner) right (inner x n) = I. */
static void assert_identity(int64_t n, int64_t inner, const double *left, const double *right, double tolerance) {
    double *p = product(n, inner, n, left, right);
    double scale = fmax(1, largest(n * inner, left) * largest(n * inner, right));
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

/* f(2x - 3y) = 2 f(x) - 3 f(y), in place (where the sizes allow it) and out of place the same. */
static void assert_linear(const void *object, int64_t in, int64_t out, linear_map map, double tolerance) {
    uint64_t seed = 7;
    double *x = numbers(in), *y = numbers(in), *z = numbers(in), *fx = numbers(out), *fy = numbers(out),
           *fz = numbers(out);
    for (int64_t t = 0; t < in; t++) {
        x[t] = check_random(&seed);
        y[t] = check_random(&seed);
        z[t] = 2 * x[t] - 3 * y[t];
    }
    check_ok(map(object, x, fx));
    check_ok(map(object, y, fy));
    check_ok(map(object, z, fz));
    double scale = 1 + largest(out, fx) + largest(out, fy);
    for (int64_t t = 0; t < out; t++)
        check_near(fz[t] / scale, (2 * fx[t] - 3 * fy[t]) / scale, tolerance);
    if (in == out) check_ok(map(object, z, z));
    for (int64_t t = 0; t < out && in == out; t++)
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
    workload_inverse_bands(a, &q_bands, &r_bands);
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
    double *state = numbers(2 * workload_buffers(a)), *back = numbers(2 * workload_inverse_buffers(a));
    for (int64_t i = 0; i < 2 * n; i++)
        x[i % 2][i / 2] = check_random(&seed);
    for (int i = 0; i < 2; i++)
        check_ok(dpmf_workload_apply(a, x[i], y[i]));
    double scale = 1 + largest(n, y[0]) + largest(n, y[1]);
    for (int64_t t = 0; t < n; t++) {
        double in[2] = {x[0][t], x[1][t]}, out[2], again[2];
        workload_step(a, t, 2, in, state, out);
        workload_inverse_step(a, t, 2, out, back, again);
        for (int i = 0; i < 2; i++) {
            check_near(out[i] / scale, y[i][t] / scale, tolerance);
            check_near(again[i], in[i], tolerance * scale);
        }
    }
    free(x[0]), free(x[1]), free(y[0]), free(y[1]), free(state), free(back);
}

void check_workload(const dpmf_workload *a, double tolerance) {
    int64_t n = dpmf_workload_get(a).steps;
    double *matrix = check_workload_matrix(a), *inverse = dense_form(a, n, n, workload_solve), *norms = numbers(n);
    assert_lower(n, matrix, 1);
    assert_identity(n, n, matrix, inverse, tolerance);
    assert_identity(n, n, inverse, matrix, tolerance);
    assert_linear(a, n, n, workload_apply, tolerance);
    assert_linear(a, n, n, workload_solve, tolerance);
    assert_inverse_bands(a, n, inverse, tolerance);
    assert_workload_stream(a, n, tolerance);
    if (dpmf_workload_get(a).is_toeplitz) assert_true(looks_toeplitz(n, matrix, tolerance));
    check_ok(workload_column_norms(a, norms));
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
    int64_t rows = dpmf_strategy_get(c).rows;
    double *column = numbers(rows), *norms = numbers(n), scale = fmax(1, largest(rows * n, matrix));
    check_ok(dpmf_strategy_column_norms(c, norms));
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        check_ok(dpmf_strategy_column(c, j, column));
        for (int64_t t = 0; t < rows; t++) {
            check_near(column[t] / scale, matrix[t * n + j] / scale, tolerance);
            sum += matrix[t * n + j] * matrix[t * n + j];
        }
        check_near(norms[j], sqrt(sum), tolerance);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_column(c, -1, column));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_column(c, n, column));
    free(column), free(norms);
}

/* Every diagonal of C'C, and every row of W W' where rows are claimed. */
static void assert_gram(const dpmf_strategy *c, int64_t n, const double *matrix, const double *inverse,
                        double tolerance) {
    int64_t rows = dpmf_strategy_get(c).rows;
    double *values = numbers(n), scale = pow(fmax(1, largest(rows * n, matrix)), 2);
    for (int64_t lag = 0; lag < n; lag++) {
        check_ok(strategy_gram(c, lag, values));
        for (int64_t t = 0; t + lag < n; t++) {
            double want = 0;
            for (int64_t i = 0; i < rows; i++)
                want += matrix[i * n + t] * matrix[i * n + t + lag];
            check_near(values[t] / scale, want / scale, tolerance);
        }
    }
    scale = pow(fmax(1, largest(rows * n, inverse)), 2);
    for (int64_t t = 0; t < n && strategy_can(c, STRATEGY_CAN_COVARIANCE); t++) {
        c->ops->covariance(c, t, values);
        for (int64_t u = t; u < n; u++) {
            double want = 0;
            for (int64_t i = 0; i < rows; i++)
                want += inverse[t * rows + i] * inverse[u * rows + i];
            check_near(values[u - t] / scale, want / scale, tolerance);
        }
    }
    free(values);
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
    for (int64_t t = 0; t < n && strategy_can(c, STRATEGY_CAN_INVERSE_PART); t++) {
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
    if (!strategy_toeplitz(c, &count, &series, &inverse_count, &inverse_series)) return;
    double scale = fmax(1, fmax(largest(n * n, matrix), largest(n * n, inverse)));
    assert_true(looks_toeplitz(n, matrix, tolerance) && looks_toeplitz(n, inverse, tolerance));
    for (int64_t t = 0; t < n; t++) {
        check_near((t < count ? series[t] : 0) / scale, matrix[t * n] / scale, tolerance);
        if (inverse_count > 0)
            check_near((t < inverse_count ? inverse_series[t] : 0) / scale, inverse[t * n] / scale, tolerance);
    }
}

/*
 * The stream over three columns against W, each step taking its own seeds. For one seed per step, again from step n/2
 * on when the first half of the seeds of a column is zero.
 */
static void assert_stream(const dpmf_strategy *c, int64_t n, const double *inverse, double tolerance) {
    uint64_t seed = 23;
    int64_t rows = dpmf_strategy_get(c).rows, used = 0;
    double scale = fmax(1, largest(n * rows, inverse)), *z = numbers(3 * rows), row[3], spare[3] = {9, 9, 9};
    double *state = numbers(3 * dpmf_strategy_get(c).buffers), *late = numbers(3 * dpmf_strategy_get(c).buffers);
    for (int64_t i = 0; i < 3 * rows; i++)
        z[i] = i < 3 * (n / 2) && i % 3 == 2 ? 0 : check_random(&seed);
    for (int64_t t = 0; t < n; t++) {
        check_ok(dpmf_strategy_step(c, t, 3, z + 3 * used, state, row));
        used += dpmf_strategy_seeds(c, t);
        for (int i = 0; i < 3; i++) {
            double want = 0;
            for (int64_t u = 0; u < used; u++)
                want += inverse[t * rows + u] * z[3 * u + i];
            for (int64_t u = used; u < rows; u++) /* no seed ahead of its time */
                check_near(inverse[t * rows + u] / scale, 0, 1e-14);
            check_near(row[i] / scale, want / scale, tolerance);
        }
        if (c->ops->seeds == NULL && t >= n / 2) {
            double only[1];
            check_ok(dpmf_strategy_step(c, t, 1, &z[3 * t + 2], late, only));
            check_near(only[0] / scale, row[2] / scale, tolerance);
        }
    }
    assert_int_equal(used, rows);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_step(c, n, 3, z, state, spare));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_step(c, -1, 3, z, state, spare));
    assert_true(spare[0] == 9 && spare[1] == 9 && spare[2] == 9);
    free(z), free(state), free(late);
}

void check_strategy(const dpmf_strategy *c, double tolerance) {
    int64_t n = dpmf_strategy_get(c).steps, rows = dpmf_strategy_get(c).rows;
    double *matrix = check_strategy_matrix(c), *inverse = check_strategy_inverse(c), spare;
    assert_true(rows >= n);
    assert_identity(n, rows, inverse, matrix, tolerance);
    if (rows == n) assert_identity(n, n, matrix, inverse, tolerance);
    assert_linear(c, n, rows, strategy_apply, tolerance);
    assert_linear(c, rows, n, strategy_solve, tolerance);
    assert_columns(c, n, matrix, tolerance);
    assert_gram(c, n, matrix, inverse, tolerance);
    if (strategy_can(c, STRATEGY_CAN_ROW)) {
        assert_lower(n, matrix, fmax(1, largest(n * n, matrix)));
        assert_rows(n, matrix, strategy_bands(c), c, c->ops->row, tolerance);
    }
    if (strategy_can(c, STRATEGY_CAN_INVERSE_ROW)) {
        assert_lower(n, inverse, fmax(1, largest(n * n, inverse)));
        assert_rows(n, inverse, strategy_inverse_bands(c), c, c->ops->inverse_row, tolerance);
    }
    assert_inverse_parts(c, n, inverse, tolerance);
    assert_toeplitz_view(c, n, matrix, inverse, tolerance);
    if (dpmf_strategy_get(c).streams)
        assert_stream(c, n, inverse, tolerance);
    else
        check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_strategy_step(c, 0, 0, &spare, &spare, &spare));
    free(matrix), free(inverse);
}

void check_factorization(const dpmf_workload *a, const dpmf_strategy *c, double tolerance) {
    int64_t n = dpmf_workload_get(a).steps, rows = dpmf_strategy_get(c).rows;
    double *dense_a = check_workload_matrix(a), *dense_c = check_strategy_matrix(c), *w = check_strategy_inverse(c);
    double *b = product(n, n, rows, dense_a, w), *again = product(n, rows, n, b, dense_c);
    double *errors = numbers(n), scale = fmax(1, largest(n * n, dense_a));
    for (int64_t i = 0; i < n * n; i++)
        check_near(again[i] / scale, dense_a[i] / scale, tolerance);

    dpmf_evaluate_options options = dpmf_evaluate_options_defaults();
    dpmf_evaluation e;
    double total = 0, worst = 0, sensitivity = 0;
    options.lower_bound = DPMF_LOWER_BOUND_NONE; /* it has its own tests, and takes long */
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t t = 0; t < rows; t++)
            sum += dense_c[t * n + j] * dense_c[t * n + j];
        sensitivity = fmax(sensitivity, sqrt(sum));
    }
    check_ok(dpmf_error_compute(a, c, NULL, errors));
    for (int64_t t = 0; t < n; t++) {
        double sum = 0;
        for (int64_t u = 0; u < rows; u++)
            sum += b[t * rows + u] * b[t * rows + u];
        check_near(errors[t] / sqrt(sum), 1, tolerance);
        total += sum;
        worst = fmax(worst, sqrt(sum));
    }
    check_ok(dpmf_evaluate(a, NULL, c, &options, &e, errors));
    if (strcmp(dpmf_strategy_get(c).family, DPMF_FAMILY_UNBOUNDED) == 0 && e.sensitivity.kind == DPMF_UPPER_BOUND) {
        assert_true(e.sensitivity.value >= sensitivity); /* it is that of a stream that goes on */
        sensitivity = e.sensitivity.value;
    }
    check_near(e.sensitivity.value, sensitivity, tolerance);
    assert_true(e.sensitivity.kind == DPMF_EXACT || sensitivity == e.sensitivity.value);
    check_near(e.total_squared_loss / (sensitivity * sensitivity * total), 1, tolerance);
    check_near(e.rms_loss / (sensitivity * sqrt(total / (double)n)), 1, tolerance);
    check_near(e.max_loss / (sensitivity * worst), 1, tolerance);
    free(dense_a), free(dense_c), free(w), free(b), free(again), free(errors);
}
