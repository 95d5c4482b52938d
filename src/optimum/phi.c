/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phi(v; p) = diag( (W'W)^1/2 ), W = P^1/2 A V^1/2: the map whose fixed point is the optimal mechanism (Denisov et al.
 * 2022, Theorem 3.2), in O(n) per quadrature node instead of an O(n^3) eigendecomposition.
 *
 * With K = A^-1 P^-1 A^-T, which is banded for the named workloads, (W'W)^-1 = V^-1/2 K V^-1/2 =: M, and
 *
 *     (W'W)^1/2 = M^-1/2 = sum_j w_j (M + s_j)^-1      (base/special.h)
 *     phi_i = v_i sum_j w_j [(K + s_j V)^-1]_ii         (kernels/ladder/ladder.h)
 *
 * Since each phi_i is an average of lambda^-1/2 over the spectrum with positive weights, a relative error of the rule
 * on [low, high] is a relative error of every phi_i. The interval must enclose the spectrum of M:
 *
 *     low    A >= 0, so for any x > 0 the largest eigenvalue of A'PAV is at most max_i (A'PAVx)_i / x_i
 *            (Collatz-Wielandt), O(n) per try; x is improved by power iteration and kept between calls
 *     high   Gershgorin on V^-1 K
 *
 * [(W W')^1/2] is the same with everything reversed: J A' J is lower triangular with a banded inverse too, and the
 * spectrum is the same.
 *
 * For a dense A the singular value decomposition of W gives (W'W)^1/2 = Z Sigma Z'.
 */
#include "optimum/phi.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/special.h"
#include "kernels/ladder/ladder.h"
#include "workload/workload.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

struct optimum_phi {
    const dpmf_workload *a;
    base_pool *pool;
    int64_t n;
    int q_bands, r_bands;
    double r0, r1;
    double *q[3];                  /* bands of Q */
    double *scaled[2];             /* one band: a^2 g and c^2 g; two: p alone */
    int scaled_plainly;            /* are these for no weights, not flipped? */
    optimum_chain chain, reversed; /* two bands */
    double *vector;                /* x of the power iteration */
    int has_vector;                /* is it that of an earlier call? */
    double *work[2];
    double **scratch, **partial; /* one per item of a wave */
    int width;
    double *matrix, *u; /* dense */
    double floor;
    const dpmf_run *run; /* the progress callback, called between waves */
    double done;
};

enum { MATRIX_STEPS_MAX = 4096 };

static dpmf_status alloc_each(double **arrays, int count, int64_t n, const char *what) {
    for (int i = 0; i < count; i++)
        TRY(base_alloc_doubles(n, what, &arrays[i]));
    return DPMF_OK;
}

static dpmf_status prepare_bands(optimum_phi *f) {
    int64_t n = f->n;
    TRY(alloc_each(f->q, f->q_bands + 1, n, "the bands of the inverse workload"));
    TRY(alloc_each(f->scaled, 2, n, "the bands of the inverse workload"));
    if (f->q_bands == 2) TRY(optimum_chain_create(f->a, 0, &f->chain));
    for (int64_t t = 0; t < n; t++) {
        double q[3], r[2];
        TRY(dpmf_workload_inverse_row(f->a, t, q, r));
        for (int j = 0; j <= f->q_bands; j++)
            f->q[j][t] = q[j];
        f->r0 = r[0];
        if (t > 0) f->r1 = r[1];
    }
    f->width = base_pool_threads(f->pool);
    TRY(base_alloc(f->width, sizeof *f->scratch, "scratch", (void **)&f->scratch));
    TRY(base_alloc(f->width, sizeof *f->partial, "scratch", (void **)&f->partial));
    int64_t each = f->q_bands == 1 ? n * KERNELS_LADDER_LANES : kernels_ladder_two_scratch(n);
    TRY(alloc_each(f->scratch, f->width, each, "the ladders"));
    return alloc_each(f->partial, f->width, n, "the ladders");
}

static dpmf_status prepare_matrix(optimum_phi *f) {
    if (f->n > MATRIX_STEPS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "workload %s: the optimum of a matrix is known up to %d steps, not %lld", f->a->text,
                         MATRIX_STEPS_MAX, (long long)f->n);
    TRY(base_alloc_square(f->n, "the weighted workload", &f->matrix));
    return base_alloc_square(f->n, "its singular vectors", &f->u);
}

dpmf_status optimum_phi_create(const dpmf_workload *workload, base_pool *pool, optimum_phi **out) {
    optimum_phi *f = NULL;
    dpmf_status status = DPMF_OK;
    if (workload->form == WORKLOAD_OPERATOR)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "workload operator: its optimum is not known");
    TRY(base_alloc(1, sizeof *f, "the optimum's map", (void **)&f));
    f->a = workload;
    f->pool = pool;
    f->n = workload->steps;
    workload_inverse_bands(workload, &f->q_bands, &f->r_bands);
    TRY_DONE(alloc_each(f->work, 2, f->n, "vectors"));
    TRY_DONE(base_alloc_doubles(f->n, "an eigenvector", &f->vector));
    for (int64_t t = 0; t < f->n; t++)
        f->vector[t] = 1;
    TRY_DONE(f->q_bands < 0 ? prepare_matrix(f) : prepare_bands(f));
    *out = f;
    f = NULL;
done:
    optimum_phi_free(f);
    return status;
}

void optimum_phi_free(optimum_phi *f) {
    if (f == NULL) return;
    for (int j = 0; j < 3; j++)
        base_free(f->q[j]);
    for (int j = 0; j < 2; j++)
        base_free(f->scaled[j]);
    optimum_chain_free(&f->chain);
    optimum_chain_free(&f->reversed);
    for (int i = 0; i < f->width; i++) {
        if (f->scratch != NULL) base_free(f->scratch[i]);
        if (f->partial != NULL) base_free(f->partial[i]);
    }
    base_free(f->scratch);
    base_free(f->partial);
    base_free(f->vector);
    base_free(f->work[0]);
    base_free(f->work[1]);
    base_free(f->matrix);
    base_free(f->u);
    base_free(f);
}

double optimum_phi_watch(optimum_phi *f, const dpmf_run *run, double done) {
    f->run = run;
    f->done = fmax(f->done, done);
    return f->done;
}

/* The larger of two, and not a number if one of them is none: a bound must not overlook it. */
static double larger(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

/* One step of the power iteration, x <- A'PAVx; the largest ratio, which bounds the largest eigenvalue. */
static dpmf_status power_step(optimum_phi *f, const double *v, const double *p, double *ratio) {
    double *y = f->work[0], largest = 0, top = 0;
    for (int64_t t = 0; t < f->n; t++)
        y[t] = v[t] * f->vector[t];
    TRY(dpmf_workload_apply(f->a, y, y));
    for (int64_t t = 0; p != NULL && t < f->n; t++)
        y[t] *= p[t];
    TRY(workload_apply_transpose(f->a, y, y));
    for (int64_t t = 0; t < f->n; t++) {
        largest = larger(largest, y[t] / f->vector[t]);
        top = larger(top, y[t]);
    }
    for (int64_t t = 0; t < f->n; t++) {
        const double scaled = y[t] / top;
        f->vector[t] = scaled > 1e-200 ? scaled : 1e-200;
    }
    *ratio = largest;
    return DPMF_OK;
}

/* Row sums of |K| / v; with R, of |R^-1| |Q G Q'| |R^-T|, the inverses being geometric series. bands: q_bands. */
static inline double gershgorin_of(optimum_phi *f, const int bands, const double *v, const double *p) {
    int64_t n = f->n;
    double *x = f->work[0], *y = f->work[1], b = f->r1 / f->r0, largest = 0, carry = 0;
    for (int64_t t = n - 1; t >= 0; t--)
        x[t] = carry = 1 / f->r0 + fabs(b) * carry; /* |R^-T| 1 */
    for (int64_t u = 0; u < n; u++) {               /* |Q'| x, then g, kept per column u */
        double sum = 0;
        for (int j = 0; j <= bands && u + j < n; j++)
            sum += fabs(f->q[j][u + j]) * x[u + j];
        y[u] = sum / (p == NULL ? 1 : p[u]);
    }
    carry = 0;
    for (int64_t t = 0; t < n; t++) { /* |Q| y, then |R^-1| */
        double sum = 0;
        for (int j = 0; j <= bands && j <= t; j++)
            sum += fabs(f->q[j][t]) * y[t - j];
        carry = sum / f->r0 + fabs(b) * carry;
        largest = larger(largest, carry / v[t]);
    }
    return largest;
}

dpmf_status optimum_phi_interval(optimum_phi *f, const double *v, const double *p, double *low, double *high) {
    double ratio = 0, before;
    TRY(power_step(f, v, p, &ratio));
    /* from x = 1 the ratio is within 1.2 at once; more steps while they help; one suffices if x comes from the last call */
    for (int steps = 1; steps < 12 && !f->has_vector; steps++) {
        before = ratio;
        TRY(power_step(f, v, p, &ratio));
        ratio = fmin(ratio, before);
        if (ratio > 0.98 * before) break;
    }
    f->has_vector = 1;
    /* widened by far more than the rounding of these sums, of which a step of either pass adds at most four */
    double wider = 1e-9 + 32 * (double)f->n * DBL_EPSILON;
    *low = (1 - wider) / ratio;
    *high = (f->q_bands == 1 ? gershgorin_of(f, 1, v, p) : gershgorin_of(f, 2, v, p)) * (1 + wider);
    if (!(*low > 0 && isfinite(*low) && isfinite(*high) && *high >= *low)) {
        f->has_vector = 0;
        for (int64_t t = 0; t < f->n; t++)
            f->vector[t] = 1;
        return base_fail(DPMF_ERROR_NUMERICAL, "optimum: the spectrum [%g, %g] is beyond double precision", *low,
                         *high);
    }
    return DPMF_OK;
}

typedef struct wave {
    optimum_phi *f;
    const base_quadrature *rule;
    const optimum_chain *chain; /* two bands */
    const double *v;
    int first; /* group of the first item */
} wave;

static dpmf_status run_group(void *context, int64_t item, int worker) {
    const wave *w = context;
    optimum_phi *f = w->f;
    const kernels_ladder_set *kernels = kernels_ladder_get();
    double shift[KERNELS_LADDER_LANES], weight[KERNELS_LADDER_LANES];
    (void)worker;
    for (int j = 0; j < KERNELS_LADDER_LANES; j++) {
        int node = (w->first + (int)item) * KERNELS_LADDER_LANES + j, used = node < w->rule->count;
        shift[j] = w->rule->shift[used ? node : 0]; /* unused lanes have weight 0 */
        weight[j] = used ? w->rule->weight[node] : 0;
    }
    if (f->q_bands == 1) {
        kernels_ladder_one job = {f->n, f->scaled[0], f->scaled[1], w->v, {0}, {0}, f->scratch[item], f->partial[item]};
        memcpy(job.shift, shift, sizeof shift);
        memcpy(job.weight, weight, sizeof weight);
        kernels->ladder_one(&job);
    } else {
        const optimum_chain *c = w->chain;
        kernels_ladder_two job = {.n = f->n,
                                  .keep = c->keep,
                                  .momentum = c->momentum,
                                  .fresh = c->fresh,
                                  .offset = c->offset,
                                  .cross = c->cross,
                                  .p = f->scaled[0],
                                  .v = w->v,
                                  .scratch = f->scratch[item],
                                  .out = f->partial[item]};
        memcpy(job.shift, shift, sizeof shift);
        memcpy(job.weight, weight, sizeof weight);
        kernels->ladder_two(&job);
    }
    return DPMF_OK;
}

/* The arguments of the kernels for weights p; `flip` for J A' J, whose band j of row t is A's at (n-1-t+j, n-1-t). */
static void scale_bands(optimum_phi *f, const double *p, int flip) {
    int64_t n = f->n;
    const int plainly = p == NULL && !flip;
    if (plainly && f->scaled_plainly) return;
    f->scaled_plainly = plainly;
    for (int64_t t = 0; t < n && f->q_bands == 2; t++)
        f->scaled[0][t] = p == NULL ? 1 : flip ? p[n - 1 - t] : p[t];
    for (int64_t t = 0; t < n && f->q_bands == 1; t++) {
        for (int j = 0; j < 2; j++) {
            int64_t u = t - j; /* its column */
            double q = u < 0 ? 0 : flip ? f->q[j][n - 1 - u] : f->q[j][t];
            double g = u < 0 || p == NULL ? 1 : 1 / (flip ? p[n - 1 - u] : p[u]);
            f->scaled[j][t] = q * q * g;
        }
    }
}

/* out_i = v_i sum_j w_j [(K + s_j V)^-1]_ii, groups of nodes added in their order. */
static dpmf_status run_ladders(optimum_phi *f, const optimum_chain *chain, const base_quadrature *rule, const double *v,
                               double *out) {
    wave w = {.f = f, .rule = rule, .chain = chain, .v = v};
    int groups = (rule->count + KERNELS_LADDER_LANES - 1) / KERNELS_LADDER_LANES;
    for (w.first = 0; w.first < groups; w.first += f->width) {
        int items = groups - w.first < f->width ? groups - w.first : f->width;
        TRY(base_progress(f->run, "optimum", f->done));
        TRY(base_pool_run(f->pool, items, run_group, &w));
        for (int i = 0; i < items; i++) {
            const double *partial = f->partial[i];
            if (w.first + i == 0)
                memcpy(out, partial, (size_t)f->n * sizeof *out);
            else
                for (int64_t t = 0; t < f->n; t++)
                    out[t] += partial[t];
        }
    }
    for (int64_t t = 0; t < f->n; t++)
        out[t] *= v[t];
    return DPMF_OK;
}

dpmf_status optimum_phi_resolvents(optimum_phi *f, const double *v, const double *p, const base_quadrature *rule,
                                   double *out) {
    assert(f->q_bands == 1 || f->q_bands == 2);
    scale_bands(f, p, 0);
    return run_ladders(f, &f->chain, rule, v, out);
}

/*
 * Rounding: a bound, since in either ladder errors only add up. One band: at most six roundings per step and, where
 * rates or weights make the bands inexact, fourteen in these. Two bands: at most 24 per step in each of two filters
 * that share the n steps, in a numerator and in a denominator. Chains with a negative coefficient (Nesterov momentum
 * with rising learning rates or decay) subtract mildly; there the bound is ten times the error measured with 50-digit
 * arithmetic.
 */
static double rounding_error(const optimum_phi *f, const double *p, const optimum_chain *chain) {
    double u = DBL_EPSILON / 2, n = (double)f->n + 16;
    if (f->q_bands == 1) return (f->a->learning_rate == NULL && f->a->decay == 0 && p == NULL ? 8 : 24) * n * u;
    return 64 * n * u + (chain->positive ? 0 : 1e-11);
}

/* W = U Sigma Z': columns from Z, rows from U. */
static dpmf_status eval_matrix(optimum_phi *f, const double *v, const double *p, double *columns, double *rows,
                               double *error) {
    int64_t n = f->n;
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u < n; u++)
            f->matrix[t * n + u] = u > t ? 0 : sqrt(p == NULL ? 1 : p[t]) * f->a->matrix[t * n + u] * sqrt(v[u]);
    TRY(base_svd(n, f->matrix, f->work[0], f->u)); /* matrix becomes Z', rows are right singular vectors */
    for (int64_t t = 0; t < n; t++) {
        double column = 0, row = 0;
        for (int64_t k = 0; k < n; k++) {
            column += f->work[0][k] * f->matrix[k * n + t] * f->matrix[k * n + t];
            row += f->work[0][k] * f->u[t * n + k] * f->u[t * n + k];
        }
        columns[t] = column;
        if (rows != NULL) rows[t] = row;
    }
    /*
     * The decomposition is that of a matrix near W relative to its norm: the sum of phi, the nuclear norm, is right to
     * a few n roundings, but an entry can be off by a few roundings of the largest singular value.
     */
    *error = 64 * (double)n * DBL_EPSILON;
    f->floor = 4 * DBL_EPSILON * f->work[0][0];
    return DPMF_OK;
}

double optimum_phi_floor(const optimum_phi *f) {
    return f->floor;
}

dpmf_status optimum_phi_eval(optimum_phi *f, const double *v, const double *p, double tolerance, int nodes,
                             double *columns, double *rows, double *error) {
    if (f->q_bands < 0) return eval_matrix(f, v, p, columns, rows, error);
    double low = 0, high = 0;
    base_quadrature rule;
    TRY(optimum_phi_interval(f, v, p, &low, &high));
    base_quadrature_fill(low, high, nodes > 0 ? nodes : base_quadrature_nodes(high / low, tolerance), &rule);
    scale_bands(f, p, 0);
    TRY(run_ladders(f, &f->chain, &rule, v, columns));
    double rounding = rounding_error(f, p, &f->chain);
    if (rows != NULL) {
        if (f->q_bands == 2 && f->reversed.n == 0) TRY(optimum_chain_create(f->a, 1, &f->reversed));
        double *flipped = f->work[0];
        for (int64_t t = 0; t < f->n; t++)
            flipped[t] = p == NULL ? 1 : p[f->n - 1 - t];
        scale_bands(f, v, 1);
        TRY(run_ladders(f, &f->reversed, &rule, flipped, rows));
        base_reverse(f->n, rows);
        rounding = fmax(rounding, rounding_error(f, v, &f->reversed));
    }
    *error = rule.error + rounding;
    return DPMF_OK;
}

/*
 * ---- workloads of two bands as chains ----
 *
 * The chains of optimum/phi.h from a workload's recursion (workload/workload.h)
 *
 *     mu_t = beta mu_{t-1} + g_t,   u_t = w mu_t + f g_t,   o_t = k_t o_{t-1} + eta_t u_t.
 *
 * A' runs it backwards: l_t = k_{t+1} l_{t+1} + y_t, then beta and w eta_t l_t into what becomes m, then x = m + f eta
 * l. (J A' J)' = J A J is the recursion itself with steps counted from the end: l is mu, x is o, and
 *
 *     x_t = k_t x_{t-1} + eta_t (w beta l_{t-1} + (w + f) y_t),     offset = f beta eta_{t+1} / k_{t+1}
 *
 * where the offset is what makes cross = fresh keep - momentum offset.
 */

static dpmf_status fill_reversed(const dpmf_workload *a, optimum_chain *c) {
    for (int64_t t = 0; t < a->steps; t++) {
        int64_t i = a->steps - 1 - t;
        workload_recursion_form r = workload_recursion(a, t);
        double ahead = 0; /* f eta_{t+1} / k_{t+1} */
        if (r.from_y > 0 && t + 1 < a->steps) {
            workload_recursion_form next = workload_recursion(a, t + 1);
            if (!(next.keep > 0))
                return base_fail(
                    DPMF_ERROR_UNSUPPORTED,
                    "workload %s: decay x learning rate = 1 at step %lld; the max-loss optimum of Nesterov "
                    "momentum is known for less than 1",
                    a->text, (long long)(t + 1));
            ahead = r.from_y * next.rate / next.keep;
        }
        c->offset[i] = r.momentum * ahead;
        c->fresh[i] = r.from_y > 0 ? r.rate + r.momentum * (r.rate - ahead) : r.rate;
        if (t == 0) continue;
        c->keep[i] = r.momentum;
        c->momentum[i] = r.keep;
        c->cross[i] = r.from_m * r.momentum * (r.rate - ahead); /* w = beta where f = 1, and 1 where f = 0 */
    }
    return DPMF_OK;
}

dpmf_status optimum_chain_create(const dpmf_workload *workload, int reversed, optimum_chain *out) {
    optimum_chain c = {.n = workload->steps, .positive = 1};
    dpmf_status status = DPMF_OK;
    assert(workload->form == WORKLOAD_NAMED);
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.keep));
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.momentum));
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.fresh));
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.offset));
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.cross));
    if (reversed) {
        TRY_DONE(fill_reversed(workload, &c));
    } else {
        /* A difference with Nesterov momentum only: of rates, exact where nearly equal, so its relative error is small. */
        for (int64_t t = 0; t < workload->steps; t++) {
            workload_recursion_form r = workload_recursion(workload, t);
            c.fresh[t] = r.from_m * r.rate;
            c.offset[t] = r.from_y * r.rate;
            if (t + 1 == workload->steps) break;
            workload_recursion_form next = workload_recursion(workload, t + 1);
            c.keep[t] = next.keep;
            c.momentum[t] = r.momentum;
            c.cross[t] = r.from_m * (r.rate * next.keep - r.from_y * next.rate); /* w = beta where f = 1 */
        }
    }
    for (int64_t t = 0; t < c.n; t++)
        if (c.cross[t] < 0 || c.fresh[t] < 0) c.positive = 0;
    *out = c;
    c = (optimum_chain){0};
done:
    optimum_chain_free(&c);
    return status;
}

void optimum_chain_free(optimum_chain *c) {
    base_free(c->keep);
    base_free(c->momentum);
    base_free(c->fresh);
    base_free(c->offset);
    base_free(c->cross);
    *c = (optimum_chain){0};
}
