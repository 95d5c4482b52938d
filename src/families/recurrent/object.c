/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Toeplitz strategies of constant-recurrent coefficients: c_t = u' M^t v with M any d x d matrix (Pillutla et al. 2025,
 * Definition 2.27 and Theorem 2.28). These are all power series c(x) = p(x) / q(x) with deg p < d, deg q <= d and q(0) = 1; bands
 * and BLTs are special cases, oscillating coefficients (complex eigenvalues of M) are not among them. C x and W z, W = C^-1,
 * are recursions of d buffers s, zero at first:
 *
 *     C    y_t = u's + c_0 x_t             s <- M (s + v x_t)
 *     W    y_t = (z_t - u's) / c_0         s <- M (s + v y_t)
 *
 * so that W's coefficients follow from the same numbers, w_0 = 1/c_0. The stream runs in double for any precision of its rows.
 *
 * Two things can go wrong, and both are checked when the strategy is made. The sensitivity comes from c and the noise from the
 * recursion: toeplitz_check_pair proves that the two series are each other's inverse. And roundings may grow, even where the series
 * are harmless: M may have a growing direction that v does not excite or u does not see. The recursion of W is
 * s <- N s + M v z / c_0 with N = M (I - v u' / c_0). With e = 2^-53, a step rounds
 *
 *     s    by at most e_s = (d+3) e |M| (|s| + |v| |y|), entry by entry, which changes the row k steps later by |q_k|' e_s with
 *          q_k = (N')^k u / c_0;
 *     y    as if z were off by e_z = (d+3) e (|z| + |u|'|s|), which changes the row k steps later by |w_k| e_z.
 *
 * Standard deviations take the place of |s|, |y| and |z|; they only grow with the step. So row t is off by at most
 *
 *     sum_i (|q_0| + ... + |q_t|)_i (e_s)_i + (|w_0| + ... + |w_t|) e_z,
 *
 * and this has to stay below 1e-8 of the row's own deviation at every step.
 */
#include "families/families.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "families/toeplitz/toeplitz.h"
#include "workload/workload.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX = DPMF_RECURRENT_MAX };

typedef struct recurrent {
    dpmf_strategy base;
    int d;
    double m[MAX * MAX], u[MAX], v[MAX]; /* m: d x d, row-major */
    double first;                        /* c_0 = u'v */
    double *c, *w;                       /* first columns of C and W, whole */
} recurrent;

STRATEGY_CAST(recurrent)

static void release(dpmf_strategy *s) {
    base_free(((recurrent *)s)->c);
    base_free(((recurrent *)s)->w);
}

/* s <- M (s + v y) for the `count` numbers y, at most LANES of them; s has rows `stride` apart. */
enum { LANES = 64 };
static void move_on(const recurrent *c, int64_t count, const double *y, int64_t stride, double *s) {
    double moved[MAX * LANES];
    for (int k = 0; k < c->d; k++)
        for (int64_t i = 0; i < count; i++)
            moved[k * LANES + i] = s[k * stride + i] + c->v[k] * y[i];
    for (int j = 0; j < c->d; j++) {
        double *row = s + j * stride;
        for (int64_t i = 0; i < count; i++)
            row[i] = 0;
        for (int k = 0; k < c->d; k++) {
            const double weight = c->m[j * c->d + k];
            if (weight == 0) continue; /* companion matrices and bands are mostly zeros */
            for (int64_t i = 0; i < count; i++)
                row[i] += weight * moved[k * LANES + i];
        }
    }
}

/* Every coordinate is computed alone, so that its bits do not depend on how the coordinates are divided. */
static void recurrent_step(const dpmf_strategy *strategy, int64_t t, int64_t count, const double *seed, double *state,
                           double *row) {
    const recurrent *c = cast(strategy);
    (void)t;
    for (int64_t at = 0; at < count; at += LANES) {
        const int64_t lanes = count - at < LANES ? count - at : LANES;
        double *y = row + at;
        for (int64_t i = 0; i < lanes; i++)
            y[i] = seed[at + i];
        for (int k = 0; k < c->d; k++)
            for (int64_t i = 0; i < lanes; i++)
                y[i] -= c->u[k] * state[k * count + at + i];
        for (int64_t i = 0; i < lanes; i++)
            y[i] /= c->first;
        move_on(c, lanes, y, count, state + at);
    }
}

static void encode_step(const recurrent *c, double x, double *s, double *y) {
    *y = c->first * x;
    for (int k = 0; k < c->d; k++)
        *y += c->u[k] * s[k];
    move_on(c, 1, &x, 1, s);
}

static dpmf_status apply(const dpmf_strategy *strategy, const double *x, double *y) {
    double s[MAX] = {0};
    for (int64_t t = 0; t < strategy->steps; t++)
        encode_step(cast(strategy), x[t], s, &y[t]);
    return DPMF_OK;
}

static dpmf_status solve(const dpmf_strategy *strategy, const double *y, double *x) {
    double s[MAX] = {0};
    for (int64_t t = 0; t < strategy->steps; t++)
        recurrent_step(strategy, t, 1, &y[t], s, &x[t]);
    return DPMF_OK;
}

static int64_t buffers(const dpmf_strategy *strategy) {
    return cast(strategy)->d;
}

static dpmf_status column(const dpmf_strategy *strategy, int64_t j, double *values) {
    memset(values, 0, (size_t)j * sizeof *values);
    memcpy(values + j, cast(strategy)->c, (size_t)(strategy->steps - j) * sizeof *values);
    return DPMF_OK;
}

/* Column n-1-i holds c_0..c_i: one running sum of squares. */
static dpmf_status column_norms(const dpmf_strategy *strategy, double *norms) {
    base_running sum = {0};
    for (int64_t i = 0; i < strategy->steps; i++) {
        const double c = cast(strategy)->c[i];
        base_running_add(&sum, c * c);
        norms[strategy->steps - 1 - i] = sqrt(base_running_value(&sum));
    }
    return DPMF_OK;
}

static void inverse_part(const dpmf_strategy *strategy, int64_t t, int64_t j, int64_t count, double *values) {
    assert(j + count <= t + 1);
    for (int64_t i = 0; i < count; i++)
        values[i] = cast(strategy)->w[t - j - i];
}

static void series(const dpmf_strategy *strategy, int64_t *count, const double **c, int64_t *inverse_count,
                   const double **inverse) {
    *count = *inverse_count = strategy->steps;
    *c = cast(strategy)->c;
    *inverse = cast(strategy)->w;
}

static void write_arrays(const dpmf_strategy *strategy, base_writer *w, base_tensors *tensors) {
    const recurrent *c = cast(strategy);
    (void)w;
    base_tensors_add(tensors, "strategy.matrix", c->d, c->d, c->m);
    base_tensors_add(tensors, "strategy.u", c->d, 0, c->u);
    base_tensors_add(tensors, "strategy.v", c->d, 0, c->v);
}

static dpmf_status create(int64_t steps, int64_t d, const double *m, const double *u, const double *v,
                          dpmf_strategy **out);

static dpmf_status leading(const dpmf_strategy *strategy, int64_t steps, dpmf_strategy **out) {
    const recurrent *c = cast(strategy);
    return create(steps, c->d, c->m, c->u, c->v, out);
}

static const strategy_ops RECURRENT = {.class_name = "recurrent",
                                       .release = release,
                                       .apply = apply,
                                       .solve = solve,
                                       .step = recurrent_step,
                                       .buffers = buffers,
                                       .column = column,
                                       .column_norms = column_norms,
                                       .inverse_part = inverse_part,
                                       .toeplitz = series,
                                       .is_toeplitz = 1,
                                       .leading = leading,
                                       .write = write_arrays};

/* q <- N'q = (M'q) - u (v'M'q) / c_0 */
static void move_back(const recurrent *c, double *q) {
    double moved[MAX] = {0}, fed = 0;
    for (int j = 0; j < c->d; j++)
        for (int k = 0; k < c->d; k++)
            moved[k] += c->m[j * c->d + k] * q[j];
    for (int k = 0; k < c->d; k++)
        fed += c->v[k] * moved[k];
    for (int k = 0; k < c->d; k++)
        q[k] = moved[k] - c->u[k] * (fed / c->first);
}

/* What the stream's roundings can add to a row, over the row's deviation, largest over the steps (see above). Fills in w. */
static double fill_inverse(recurrent *c) {
    double s[MAX] = {0}, squares[MAX] = {0}, q[MAX], seen[MAX] = {0}, row_square = 0, seen_rows = 0, worst = 0;
    const double unit = (c->d + 3) * 0.5 * DBL_EPSILON;
    for (int k = 0; k < c->d; k++)
        q[k] = c->u[k] / c->first;
    for (int64_t t = 0; t < c->base.steps; t++) {
        const double seed = t == 0;
        double rounding = 0, input = 1;
        recurrent_step(&c->base, t, 1, &seed, s, &c->w[t]);
        row_square += c->w[t] * c->w[t];
        for (int j = 0; j < c->d; j++) {
            double size = 0;
            for (int k = 0; k < c->d; k++)
                size += fabs(c->m[j * c->d + k]) * (sqrt(squares[k]) + fabs(c->v[k]) * sqrt(row_square));
            seen[j] += fabs(q[j]);
            rounding += seen[j] * unit * size;
            input += fabs(c->u[j]) * sqrt(squares[j]);
        }
        seen_rows += fabs(c->w[t]);
        rounding += seen_rows * unit * input;
        for (int k = 0; k < c->d; k++)
            squares[k] += s[k] * s[k];
        move_back(c, q);
        rounding /= sqrt(row_square);
        if (!(rounding <= worst)) worst = rounding; /* also where it is not a number */
        if (!isfinite(worst)) return INFINITY;
    }
    return worst;
}

static dpmf_status check_numbers(int64_t steps, int64_t d, const double *m, const double *u, const double *v) {
    if (steps < 1 || steps > STRATEGY_HELD_MAX / 2)
        return base_fail(DPMF_ERROR_ARGUMENT, "recurrent: %lld steps, accepted 1 to 2^23 (two series are held)",
                         (long long)steps);
    if (d < 1 || d > MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "recurrent: a matrix of %lld rows, accepted 1 to %d", (long long)d, MAX);
    if (steps * d * d > (int64_t)1 << 30) /* seconds */
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "recurrent: %lld steps of a matrix of %lld rows, accepted up to %lld steps", (long long)steps,
                         (long long)d, (long long)(((int64_t)1 << 30) / (d * d)));
    if (m == NULL || u == NULL || v == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "recurrent: matrix, u or v is NULL, accepted: all three");
    TRY(base_check_finite(d * d, m, "recurrent: matrix entry"));
    TRY(base_check_finite(d, u, "recurrent: u entry"));
    return base_check_finite(d, v, "recurrent: v entry");
}

static dpmf_status create(int64_t steps, int64_t d, const double *m, const double *u, const double *v,
                          dpmf_strategy **out) {
    static const double rounding_most = 1e-8;
    recurrent *c = NULL;
    dpmf_status status = DPMF_OK;
    double s[MAX] = {0};
    TRY(check_numbers(steps, d, m, u, v));
    TRY(strategy_new(&RECURRENT, sizeof *c, DPMF_FAMILY_RECURRENT, steps, (dpmf_strategy **)&c));
    c->d = (int)d;
    memcpy(c->m, m, (size_t)(d * d) * sizeof *m);
    memcpy(c->u, u, (size_t)d * sizeof *u);
    memcpy(c->v, v, (size_t)d * sizeof *v);
    c->first = base_dot(d, u, v);
    if (!isfinite(c->first) || fabs(c->first) <= 4 * (double)d * DBL_EPSILON * base_norm(d, u) * base_norm(d, v)) {
        status = base_fail(
            DPMF_ERROR_ARGUMENT,
            "recurrent: c_0 = u'v = %g, accepted: not 0 (it is the diagonal of C, which must be invertible)", c->first);
        goto done;
    }
    TRY_DONE(base_alloc_doubles(steps, "the coefficients of C", &c->c));
    TRY_DONE(base_alloc_doubles(steps, "the coefficients of C^-1", &c->w));
    for (int64_t t = 0; t < steps; t++)
        encode_step(c, t == 0, s, &c->c[t]);
    TRY_DONE(base_check_finite(steps, c->c, "recurrent: the coefficients u' M^t v overflow: coefficient"));
    const double rounding = fill_inverse(c);
    if (!(rounding <= rounding_most)) {
        status =
            base_fail(DPMF_ERROR_NUMERICAL,
                      "recurrent: rounding could change a row of the noise by %.3g of its size, accepted: up to %g "
                      "(over %lld steps the recursion of C^-1 grows)",
                      rounding, rounding_most, (long long)steps);
        goto done;
    }
    TRY_DONE(toeplitz_check_pair(steps, steps, c->c, steps, c->w, DPMF_ERROR_NUMERICAL));
    *out = &c->base;
    c = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)c);
    return status;
}

dpmf_status recurrent_create_given(const dpmf_workload *workload, const dpmf_strategy_options *o, dpmf_strategy **out) {
    if (o->decoder_matrix != NULL)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "family " DPMF_FAMILY_RECURRENT ": a decoder is given, but a square C has only one");
    return create(workload->steps, o->matrix_rows, o->matrix, o->u, o->v, out);
}

dpmf_status recurrent_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *m = NULL, *u = NULL, *v = NULL;
    TRY(strategy_array(source, "strategy.matrix", -1, -1, &m));
    TRY(strategy_array(source, "strategy.u", m->shape[0], 0, &u));
    TRY(strategy_array(source, "strategy.v", m->shape[0], 0, &v));
    if (m->shape[0] != m->shape[1])
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: recurrent with a matrix of %lld x %lld, accepted: square",
                         (long long)m->shape[0], (long long)m->shape[1]);
    dpmf_status status = create(source->steps, m->shape[0], m->values, u->values, v->values, out);
    return status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_FORMAT : status; /* the fault is in the file */
}
