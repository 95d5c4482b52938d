/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimal mechanism under single participation, with a certificate.
 *
 * RMS and weighted (Denisov et al. 2022, Theorem 3.2): minimise tr(A'PA X^-1) over X with unit diagonal. Its dual is
 * maximise 2 tr((V^1/2 A'PA V^1/2)^1/2) - sum v over v > 0, and the optimum is the fixed point of v = phi(v)
 * (optimum_phi.h). Any v certifies:
 *
 *     (sum phi)^2 / sum v  <=  optimal total squared loss  <=  sum phi  max_i phi_i/v_i
 *
 * the left by the best scaling of v in the dual, the right by normalising X(v) to unit diagonal. Plain iteration creeps
 * (2e-3 off after 300 steps for momentum 0.95); Anderson acceleration on log v takes 20 to 70 steps.
 *
 * Max loss (the gamma_2 norm; Pillutla et al. 2025, Theorem 2.4 and Section 2.11): maximise the nuclear norm of
 * W = P^1/2 A Q^1/2 over p, q in the simplex: q proportional to diag (W'W)^1/2, p to diag (W W')^1/2, and
 *
 *     |W|_*  <=  gamma_2  <=  sqrt( max_i [(W W')^1/2]_ii/p_i  max_j [(W'W)^1/2]_jj/q_j ).
 *
 * A Toeplitz A is its own reversed transpose, so p = reverse(q) there and one evaluation of phi serves both sides.
 *
 * Both start from the solution for a quarter of the steps, stretched. A step whose residual is much worse than the
 * best so far is thrown away and the acceleration restarted from the best point.
 */
#include "optimum.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/threads.h"
#include "optimum_anderson.h"
#include "optimum_phi.h"
#include "workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ITERATIONS_MAX = 500, COARSE_MIN = 256, COARSER = 4 };

typedef struct solver {
    const dpmf_workload *a;
    const double *weights;
    const dpmf_run *run;
    dpmf_i_phi *phi;
    int max_loss, mirrored; /* mirrored: p = reverse(q) */
    int64_t n, unknowns;    /* n, or 2n for max loss with p apart */
    double *x, *f;          /* logarithms of v (and p), and the residual */
    double *v, *p;
    double *columns, *rows;
    double *best_x, *kept;
    double lower, upper, error; /* of the last evaluation: losses */
    double best_lower, best_upper;
} solver;

static void solver_free(solver *s) {
    dpmf_i_phi_free(s->phi);
    dpmf_i_free(s->x);
    dpmf_i_free(s->f);
    dpmf_i_free(s->v);
    dpmf_i_free(s->p);
    dpmf_i_free(s->columns);
    dpmf_i_free(s->rows);
    dpmf_i_free(s->best_x);
    dpmf_i_free(s->kept);
}

static dpmf_status solver_create(dpmf_i_pool *pool, solver *s) {
    TRY(dpmf_i_phi_create(s->a, pool, &s->phi));
    s->mirrored = s->max_loss && dpmf_workload_is_toeplitz(s->a);
    s->unknowns = s->max_loss && !s->mirrored ? 2 * s->n : s->n;
    TRY(dpmf_i_alloc_doubles(s->unknowns, "the unknowns", &s->x));
    TRY(dpmf_i_alloc_doubles(s->unknowns, "the residual", &s->f));
    TRY(dpmf_i_alloc_doubles(s->unknowns, "the best point", &s->best_x));
    TRY(dpmf_i_alloc_doubles(s->unknowns, "the last point", &s->kept));
    TRY(dpmf_i_alloc_doubles(s->n, "the column weights", &s->v));
    if (s->max_loss || s->weights != NULL) TRY(dpmf_i_alloc_doubles(s->n, "the row weights", &s->p));
    TRY(dpmf_i_alloc_doubles(s->n, "phi", &s->columns));
    if (s->unknowns > s->n) TRY(dpmf_i_alloc_doubles(s->n, "phi", &s->rows));
    return DPMF_OK;
}

/* v (and p) from their logarithms; for max loss on the simplex. */
static void read_point(solver *s) {
    int64_t n = s->n;
    for (int64_t t = 0; t < n; t++)
        s->v[t] = exp(s->x[t]);
    if (!s->max_loss) {
        for (int64_t t = 0; t < n && s->weights != NULL; t++)
            s->p[t] = s->weights[t];
        return;
    }
    double sum = dpmf_i_sum(n, s->v);
    for (int64_t t = 0; t < n; t++)
        s->v[t] /= sum;
    for (int64_t t = 0; t < n; t++)
        s->p[t] = s->mirrored ? s->v[n - 1 - t] : exp(s->x[n + t]);
    sum = dpmf_i_sum(n, s->p);
    for (int64_t t = 0; t < n; t++)
        s->p[t] /= sum;
}

static double largest_ratio(int64_t n, const double *a, const double *b) {
    double ratio = 0;
    for (int64_t t = 0; t < n; t++)
        ratio = fmax(ratio, a[t] / b[t]);
    return ratio;
}

/* The certificate, with the error of phi taken off below and put on above. */
static void certify(solver *s) {
    double sum = dpmf_i_sum(s->n, s->columns), e = s->error, lower, upper;
    double top = largest_ratio(s->n, s->columns, s->v);
    if (s->max_loss) {
        /* sum v = 1 up to rounding, which 4 n u covers */
        lower = sum * (1 - e);
        upper = s->mirrored ? top : sqrt(top * largest_ratio(s->n, s->rows, s->p));
    } else {
        lower = sum * (1 - e) / sqrt(dpmf_i_sum(s->n, s->v) * (double)s->n);
        upper = sqrt(sum * top / (double)s->n);
    }
    s->lower = isfinite(lower) && lower > 0 ? lower : 0;
    s->upper = upper * (1 + e);
}

static dpmf_status evaluate(solver *s, double tolerance) {
    int64_t n = s->n;
    read_point(s);
    TRY(dpmf_i_phi_eval(s->phi, s->v, s->p, tolerance, 0, s->columns, s->rows, &s->error));
    certify(s);
    double shift = s->max_loss ? log(dpmf_i_sum(n, s->columns)) : 0;
    for (int64_t t = 0; t < n; t++)
        s->f[t] = log(s->columns[t] / s->v[t]) - shift;
    if (s->unknowns > n) {
        shift = log(dpmf_i_sum(n, s->rows));
        for (int64_t t = 0; t < n; t++)
            s->f[n + t] = log(s->rows[t] / s->p[t]) - shift;
    }
    return DPMF_OK;
}

static double gap(double lower, double upper) {
    return lower > 0 ? upper / lower - 1 : INFINITY;
}

/* The accelerated step, or the plain one where that would leap out of sight: weights change by e^20 at the most. */
static void step(dpmf_i_anderson *anderson, solver *s) {
    memcpy(s->kept, s->x, (size_t)s->unknowns * sizeof *s->x);
    dpmf_i_anderson_step(anderson, s->x, s->f);
    int sane = 1;
    for (int64_t i = 0; i < s->unknowns && sane; i++)
        sane = fabs(s->x[i] - s->kept[i]) <= 20;
    if (sane) return;
    for (int64_t i = 0; i < s->unknowns; i++)
        s->x[i] = s->kept[i] + s->f[i];
    dpmf_i_anderson_restart(anderson);
}

/* Iterates from s->x until the gap is at most `tolerance`; s->best_x is the best point met. */
static dpmf_status iterate(solver *s, double tolerance, double report_from, int *iterations) {
    dpmf_i_anderson anderson = {0};
    double start = 0, best_gap = INFINITY, quadrature = 0.1 * tolerance;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_i_anderson_create(s->unknowns, (int)(s->unknowns / s->n), &anderson));
    s->best_lower = 0;
    s->best_upper = INFINITY;
    for (int k = 0; k < ITERATIONS_MAX; k++) {
        /* far from the solution a rule of few nodes will do */
        double rule = best_gap < INFINITY ? fmax(quadrature, fmin(1e-3, 1e-3 * best_gap)) : fmax(quadrature, 1e-4);
        TRY_DONE(evaluate(s, rule));
        ++*iterations;
        double now = gap(s->lower, s->upper);
        s->best_lower = fmax(s->best_lower, s->lower);
        s->best_upper = fmin(s->best_upper, s->upper);
        if (k == 0) start = now;
        if (now < best_gap) {
            best_gap = now;
            memcpy(s->best_x, s->x, (size_t)s->unknowns * sizeof *s->x);
        }
        if (gap(s->best_lower, s->best_upper) <= tolerance) break;
        if (report_from >= 0) {
            double done = log(start / best_gap) / log(fmax(start / tolerance, 2));
            TRY_DONE(dpmf_i_progress(s->run, "optimum", fmin(1, report_from + (1 - report_from) * fmax(0, done))));
        }
        if (!(now < 30 * best_gap)) { /* astray: back to the best point, by a plain step */
            memcpy(s->x, s->best_x, (size_t)s->unknowns * sizeof *s->x);
            dpmf_i_anderson_restart(&anderson);
            TRY_DONE(evaluate(s, rule));
            ++*iterations;
        }
        step(&anderson, s);
    }
done:
    dpmf_i_anderson_free(&anderson);
    return status;
}

/* ---- the coarse start ---- */

/* Every COARSER-th learning rate, and as many steps. */
static dpmf_status coarsen(const dpmf_workload *a, dpmf_workload **out) {
    int64_t n = a->steps / COARSER;
    double *rates = NULL;
    dpmf_workload_options o = {a->momentum, a->nesterov, a->decay, NULL};
    if (a->learning_rate != NULL) {
        TRY(dpmf_i_alloc_doubles(n, "coarse learning rates", &rates));
        for (int64_t t = 0; t < n; t++)
            rates[t] = a->learning_rate[t * COARSER];
        o.learning_rate = rates;
    }
    dpmf_status status = dpmf_workload_create(n, &o, out);
    dpmf_i_free(rates);
    return status;
}

/* log v at t from the coarse one, linearly between the middles of its cells. */
static void stretch(int64_t n, int64_t coarse, const double *from, double *to) {
    for (int64_t t = 0; t < n; t++) {
        double at = ((double)t + 0.5) * (double)coarse / (double)n - 0.5;
        int64_t i = at < 0 ? 0 : (int64_t)at;
        if (i > coarse - 2) i = coarse - 2;
        double w = fmin(fmax(at - (double)i, -0.5), 1.5);
        to[t] = log(from[i]) * (1 - w) + log(from[i + 1]) * w;
    }
}

static dpmf_status solve_on(const dpmf_workload *a, int max_loss, const double *weights, double tolerance, int depth,
                            const dpmf_run *run, dpmf_i_pool *pool, dpmf_i_optimum *out);

static dpmf_status start_coarse(solver *s, double tolerance, int depth, dpmf_i_pool *pool) {
    dpmf_workload *coarse = NULL;
    dpmf_i_optimum found = {0};
    double *weights = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(coarsen(s->a, &coarse));
    if (s->weights != NULL) {
        TRY_DONE(dpmf_i_alloc_doubles(coarse->steps, "coarse weights", &weights));
        for (int64_t t = 0; t < coarse->steps; t++)
            weights[t] = s->weights[t * COARSER];
    }
    TRY_DONE(solve_on(coarse, s->max_loss, weights, fmax(tolerance, 1e-4), depth + 1, s->run, pool, &found));
    stretch(s->n, coarse->steps, found.v, s->x);
    if (s->unknowns > s->n) stretch(s->n, coarse->steps, found.p, s->x + s->n);
done:
    dpmf_i_optimum_free(&found);
    dpmf_i_free(weights);
    dpmf_workload_free(coarse);
    return status;
}

static dpmf_status solve_on(const dpmf_workload *a, int max_loss, const double *weights, double tolerance, int depth,
                            const dpmf_run *run, dpmf_i_pool *pool, dpmf_i_optimum *out) {
    solver s = {.a = a, .weights = weights, .run = run, .max_loss = max_loss, .n = a->steps};
    int iterations = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(solver_create(pool, &s));
    if (a->form == DPMF_I_WORKLOAD_NAMED && s.n >= COARSER * COARSE_MIN) {
        TRY_DONE(start_coarse(&s, tolerance, depth, pool));
    }
    TRY_DONE(iterate(&s, tolerance, depth == 0 ? 0 : -1, &iterations));
    memcpy(s.x, s.best_x, (size_t)s.unknowns * sizeof *s.x);
    read_point(&s);
    *out = (dpmf_i_optimum){.steps = s.n,
                            .v = s.v,
                            .p = s.p,
                            .lower = s.best_lower,
                            .upper = s.best_upper,
                            .iterations = iterations,
                            .converged = gap(s.best_lower, s.best_upper) <= tolerance};
    s.v = s.p = NULL;
done:
    solver_free(&s);
    return status;
}

static dpmf_status check_request(const dpmf_workload *a, int max_loss, const double *weights, double tolerance) {
    if (!(tolerance >= 1e-10 && tolerance < 1))
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT,
                           "tolerance = %g, accepted 1e-10 to 1: double precision reaches no further", tolerance);
    if (max_loss && weights != NULL)
        return dpmf_i_fail(DPMF_ERROR_UNSUPPORTED, "the max-loss optimum with weights is not known here");
    for (int64_t t = 0; weights != NULL && t < a->steps; t++)
        if (!(weights[t] > 0 && isfinite(weights[t])))
            return dpmf_i_fail(DPMF_ERROR_UNSUPPORTED, "weight of step %lld = %g, accepted for the optimum: above 0",
                               (long long)t, weights[t]);
    return DPMF_OK;
}

dpmf_status dpmf_i_optimum_solve(const dpmf_workload *workload, int max_loss, const double *weights, double tolerance,
                                 const dpmf_run *run, dpmf_i_optimum *out) {
    dpmf_i_pool *pool = NULL;
    TRY(check_request(workload, max_loss, weights, tolerance));
    /* threads do not pay below a few thousand steps */
    int threads = workload->steps < 4096 ? 1 : run == NULL ? 0 : run->threads;
    TRY(dpmf_i_pool_create(threads, &pool));
    dpmf_status status = solve_on(workload, max_loss, weights, tolerance, 0, run, pool, out);
    dpmf_i_pool_free(pool);
    return status;
}

void dpmf_i_optimum_free(dpmf_i_optimum *optimum) {
    dpmf_i_free(optimum->v);
    dpmf_i_free(optimum->p);
    optimum->v = optimum->p = NULL;
}
