/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimal mechanism under single participation, with a certificate.
 *
 * RMS and weighted (Denisov et al. 2022, Theorem 3.2): minimise tr(A'PA X^-1) over X with unit diagonal. Its dual is
 * maximise 2 tr((V^1/2 A'PA V^1/2)^1/2) - sum v over v > 0, and the optimum is the fixed point of v = phi(v)
 * (optimum/phi.h). Any v certifies:
 *
 *     (sum phi)^2 / sum v  <=  optimal total squared loss  <=  sum phi  max_i phi_i/v_i
 *
 * the left by the best scaling of v in the dual, the right by X(v) over the largest entry of its diagonal.
 *
 * Max loss (the gamma_2 norm; Pillutla et al. 2025, Theorem 2.4 and Section 2.11): maximise the nuclear norm of
 * W = P^1/2 A Q^1/2 over p, q in the simplex, which is concave there, and
 *
 *     |W|_*  <=  gamma_2  <=  sqrt( max_i [(W W')^1/2]_ii/p_i  max_j [(W'W)^1/2]_jj/q_j ).
 *
 * A Toeplitz A is its own reversed transpose, so p = reverse(q) there and one evaluation of phi serves both sides.
 *
 * optimum/ascent.c maximises either dual, starting from the stretched solution for a quarter of the steps. The first
 * and the last steps do not stretch: near either end v depends on the number of steps to that end, not on n. The coarse
 * run made the same error at the same steps, so long runs correct for it (prefix sums, 10^6 steps: the ascent begins
 * with a gap of 0.006 instead of 0.13).
 */
#include "optimum/optimum.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/special.h"
#include "base/threads.h"
#include "optimum/ascent.h"
#include "optimum/phi.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { COARSE_MIN = 64, COARSER = 4 };

/* Every COARSER-th learning rate, and as many steps. */
static dpmf_status coarsen(const dpmf_workload *a, dpmf_workload **out) {
    int64_t n = a->steps / COARSER;
    double *rates = NULL;
    dpmf_workload_options o = {.momentum = a->momentum, .nesterov = a->nesterov, .decay = a->decay};
    if (a->learning_rate != NULL) {
        TRY(base_alloc_doubles(n, "coarse learning rates", &rates));
        for (int64_t t = 0; t < n; t++)
            rates[t] = a->learning_rate[t * COARSER];
        o.learning_rate = rates;
    }
    dpmf_status status = dpmf_workload_create(n, &o, out);
    base_free(rates);
    return status;
}

/* The root of v at t from the coarse v, log v linear between the middles of its cells. */
static void stretch(int64_t n, int64_t coarse, const double *from, double *to) {
    for (int64_t t = 0; t < n; t++) {
        double at = ((double)t + 0.5) * (double)coarse / (double)n - 0.5;
        int64_t i = at < 0 ? 0 : (int64_t)at;
        if (i > coarse - 2) i = coarse - 2;
        double w = fmin(fmax(at - (double)i, -0.5), 1.5);
        to[t] = exp(0.5 * (log(from[i]) * (1 - w) + log(from[i + 1]) * w));
    }
}

/*
 * Up to this many steps the start is not corrected, so that bounds in files are found again to the last digit. A
 * quarter of the steps of a longer run is solved to this tolerance.
 */
static const int64_t LONG = 131072;
static const double COARSE_TOLERANCE = 1e-4, COARSE_TOLERANCE_LONG = 2e-5;

/* The error of stretching: ln(found / start^2), `start` roots of v, 0 on average where most of v is, cut at `most`. */
static void fill_wrong(int64_t n, double most, const double *start, const double *found, double *wrong) {
    double sum = 0, mass = 0;
    for (int64_t t = 0; t < n; t++) {
        wrong[t] = log(found[t] / (start[t] * start[t]));
        sum += found[t] * wrong[t];
        mass += found[t];
    }
    for (int64_t t = 0; t < n; t++)
        wrong[t] = fmin(most, fmax(-most, wrong[t] - sum / mass));
}

/* wrong: NULL, or gets the error of stretching of v, then p (a coarse run). phi: NULL, or gets the map; the caller frees it. */
static dpmf_status solve_on(const dpmf_workload *a, int max_loss, const double *weights, double tolerance,
                            const dpmf_run *run, base_pool *pool, int coarse, double *wrong, optimum_phi **phi,
                            optimum_answer *out);

/* stretched: NULL, or gets y right after stretching. */
static dpmf_status start_coarse(const dpmf_workload *a, optimum_ascent *s, double tolerance, base_pool *pool,
                                double *stretched) {
    dpmf_workload *coarse = NULL;
    optimum_answer found = {0};
    double *weights = NULL, *wrong = NULL;
    const int is_long = s->n > LONG;
    dpmf_status status = DPMF_OK;
    TRY_DONE(coarsen(a, &coarse));
    if (s->weights != NULL) {
        TRY_DONE(base_alloc_doubles(coarse->steps, "coarse weights", &weights));
        for (int64_t t = 0; t < coarse->steps; t++)
            weights[t] = s->weights[t * COARSER];
    }
    if (is_long) TRY_DONE(base_alloc_doubles(2 * coarse->steps, "the ends of a coarse run", &wrong));
    TRY_DONE(solve_on(coarse, s->max_loss, weights, fmax(tolerance, is_long ? COARSE_TOLERANCE_LONG : COARSE_TOLERANCE),
                      s->run, pool, 1, wrong, NULL, &found));
    stretch(s->n, coarse->steps, found.v, s->y);
    if (s->unknowns > s->n) stretch(s->n, coarse->steps, found.p, s->y + s->n);
    if (stretched != NULL) memcpy(stretched, s->y, (size_t)s->unknowns * sizeof *stretched);
    for (int64_t part = 0; is_long && part * s->n < s->unknowns; part++) {
        /* Corrects both ends by the error of a run of `coarse` steps. */
        const double *off = wrong + part * coarse->steps;
        double *y = s->y + part * s->n;
        for (int64_t i = 0; i < coarse->steps / 2; i++) {
            y[i] *= exp(0.5 * off[i]);
            y[s->n - 1 - i] *= exp(0.5 * off[coarse->steps - 1 - i]);
        }
    }
    if (is_long) {
        /* The dual has no scale of y, but the first step of an ascent has: half of a fixed-point step here, to phi(v). */
        for (int64_t part = 0; part < s->unknowns; part += s->n) {
            const double factor = sqrt(s->mirrored ? 4 : 2) / base_norm(s->n, s->y + part);
            for (int64_t i = part; i < part + s->n; i++)
                s->y[i] *= factor;
        }
    }
done:
    optimum_free(&found);
    base_free(wrong);
    base_free(weights);
    dpmf_workload_free(coarse);
    return status;
}

static dpmf_status solve_on(const dpmf_workload *a, int max_loss, const double *weights, double tolerance,
                            const dpmf_run *run, base_pool *pool, int coarse, double *wrong, optimum_phi **phi,
                            optimum_answer *out) {
    optimum_ascent s = {0};
    dpmf_status status = DPMF_OK;
    int near = a->form == WORKLOAD_NAMED && a->steps >= COARSER * COARSE_MIN;
    TRY_DONE(optimum_ascent_create(a, max_loss, weights, pool, &s));
    s.run = run;
    s.coarse = coarse;
    assert(near || wrong == NULL);
    if (near) TRY_DONE(start_coarse(a, &s, tolerance, pool, wrong));
    TRY_DONE(optimum_ascent_run(&s, tolerance, near));
    /*
     * Nearly vanishing weights of the max loss may be wrong by orders of magnitude without meaning: the correction is cut
     * at a factor e. Those of the RMS loss do not vanish, and large corrections are real: with momentum 0.9 the first
     * weight is 14 times the second and with 0.999 a thousand times, which stretching spreads over the first steps (wrong
     * by e^2.8 and e^8). But a search that ends at a gap of thousandths determines its ends no better than that, and with a
     * smaller error there it ends sooner, on a weaker bound (momentum 0.99: by 4e-5).
     */
    const double most = max_loss || tolerance > 1e-3 ? 1 : 40;
    if (wrong != NULL) fill_wrong(s.n, most, wrong, s.best_v, wrong);
    if (wrong != NULL && s.unknowns > s.n) fill_wrong(s.n, most, wrong + s.n, s.best_p, wrong + s.n);
    *out = (optimum_answer){.steps = s.n,
                            .v = s.best_v,
                            .p = s.best_p,
                            .lower = s.lower,
                            .upper = s.upper,
                            .iterations = s.evaluations,
                            .converged = optimum_ascent_gap(&s) <= tolerance};
    s.best_v = s.best_p = NULL;
    if (phi != NULL) {
        *phi = s.phi;
        s.phi = NULL;
    }
done:
    optimum_ascent_free(&s);
    return status;
}

static dpmf_status check_request(const dpmf_workload *a, int max_loss, const double *weights, double tolerance) {
    if (!(tolerance >= 1e-10 && tolerance < 1))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "tolerance = %g, accepted 1e-10 to 1: double precision reaches no further", tolerance);
    if (max_loss && weights != NULL)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the max-loss optimum with weights is not known here");
    for (int64_t t = 0; weights != NULL && t < a->steps; t++)
        if (!(weights[t] > 0 && isfinite(weights[t])))
            return base_fail(DPMF_ERROR_UNSUPPORTED, "weight of step %lld = %g, accepted for the optimum: above 0",
                             (long long)t, weights[t]);
    return DPMF_OK;
}

dpmf_status optimum_solve(const dpmf_workload *workload, int max_loss, const double *weights, double tolerance,
                          const dpmf_run *run, optimum_answer *out) {
    base_pool *pool = NULL;
    TRY(check_request(workload, max_loss, weights, tolerance));
    /* threads do not pay below a few thousand steps */
    int threads = workload->steps < 4096 ? 1 : run == NULL ? 0 : run->threads;
    TRY(base_pool_create(threads, &pool));
    dpmf_status status = solve_on(workload, max_loss, weights, tolerance, run, pool, 0, NULL, NULL, out);
    base_pool_free(pool);
    return status;
}

/* ---- a bound from a short search ---- */

/*
 * The dual is flat at its top: where the gap is a few thousandths, most of it comes from the upper bound, and the dual
 * itself is within a millionth. (Prefix sums, 10^6 steps: 3e-3 leaves 3e-8, and 1e-2 for the max loss 2e-6.)
 */
static const double SHORT_RMS = 3e-3, SHORT_MAX = 1e-2, SHORT_RULE = 2e-8;

/* The dual at v and p, scaled to the sum 1, by a rule so accurate that its error costs nothing. */
static dpmf_status value_of_dual(int64_t n, int max_loss, const double *p, const dpmf_run *run, optimum_phi *phi,
                                 double *v, double *lower) {
    double *columns = NULL, error = 0;
    const double sum = base_sum(n, v);
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "a map of the weights", &columns));
    optimum_phi_watch(phi, run, 1);
    for (int64_t t = 0; t < n; t++)
        v[t] /= sum;
    TRY_DONE(optimum_phi_eval(phi, v, p, SHORT_RULE, 0, columns, NULL, &error));
    /* p of the max loss sums to 1, and so do v and the bound's own roundings within far less than `error` */
    const double value = base_sum(n, columns) * (1 - error) / (max_loss ? 1 : sqrt((double)n));
    if (value > 0 && isfinite(value)) *lower = fmax(*lower, value);
done:
    base_free(columns);
    return status;
}

dpmf_status optimum_single_bound(const dpmf_workload *workload, int max_loss, const double *weights,
                                 const dpmf_run *run, double *lower) {
    base_pool *pool = NULL;
    optimum_phi *phi = NULL;
    optimum_answer found = {0};
    const double tolerance = max_loss ? SHORT_MAX : SHORT_RMS;
    dpmf_status status = DPMF_OK;
    TRY(check_request(workload, max_loss, weights, tolerance));
    TRY(base_pool_create(run == NULL ? 0 : run->threads, &pool));
    TRY_DONE(solve_on(workload, max_loss, weights, tolerance, run, pool, 0, NULL, &phi, &found));
    *lower = found.lower;
    TRY_DONE(value_of_dual(workload->steps, max_loss, found.p, run, phi, found.v, lower));
done:
    optimum_phi_free(phi);
    optimum_free(&found);
    base_pool_free(pool);
    return status;
}

void optimum_free(optimum_answer *optimum) {
    base_free(optimum->v);
    base_free(optimum->p);
    optimum->v = optimum->p = NULL;
}

/*
 * ---- the optimal C as a matrix ----
 *
 * From the weights v (and p) that were found above,
 *
 *     X = sum_j w_j (K + s_j V)^-1,    C lower triangular with C'C = X / max_i X_ii + diag(1 - X_ii / max_i X_ii).
 *
 * X over the largest entry of its diagonal is the mechanism of the bound `upper`; the added diagonal makes every column
 * norm 1 and can only lower errors, so C keeps that bound for any v. (Scaling rows and columns by 1/sqrt(X_ii) instead
 * would prove nothing.) With J the reversal of the steps, J X J = L L' gives C = J L' J.
 *
 * Named workloads. (K + sV)^-1 is the covariance of a chain (optimum/phi.h) given observations of each x_t with noise
 * of variance 1/(s v_t); the filters of kernels/ladder/body.inc give that of z = (l, m) at one step, and the chain
 * given the observations is z_t = E_t z_{t+1} + (something independent of z_{t+1}), so that with q = O (1, u)', d = 1 +
 * p (q_1 + u q_2)
 *
 *     E_t = 1/d [ k       -p b q_2      ]         cov(z_i, x_k) = E_i E_{i+1} ... E_{k-1} cov(z_k, x_k),  i < k
 *               [ u k      b (1 + p q_1) ]
 *
 * This takes O(n^2) per node. One band is the case without momentum.
 *
 * A matrix A. X = V^-1/2 Z Sigma Z' V^-1/2 from the singular vectors of P^1/2 A V^1/2, never formed: L comes from the
 * L Q factorization of J [X^1/2 | diag(1 - X_ii)^1/2].
 */

enum { STEPS_MAX = 8192, COLUMNS = 64 };

typedef struct link {
    double e11, e12, e21, e22; /* E_t */
    double l, m;               /* cov(z_t, x_t), times the node's weight */
} link;

typedef struct builder {
    int64_t n;
    int nodes;
    optimum_chain chain;
    link *links;   /* n x nodes */
    double *above; /* n x 5: ll, lm, mm, 0, det of the information from the steps before */
    double *x;     /* n x n */
    double *work;  /* workers x nodes x 2 x COLUMNS */
} builder;

/* ---- one node: two filters that meet ---- */

typedef struct information {
    double ll, lm, mm, l0, det;
} information;

static information observe(const double *l, double a, double z) {
    return (information){l[0] + a * z * z, l[1] + a * z, l[2] + a, l[3], l[4] + a * l[3]};
}

static void filter_above(const builder *b, const double *v, const double *p, double shift, int node) {
    const optimum_chain *c = &b->chain;
    memset(b->above, 0, 5 * sizeof *b->above);
    for (int64_t t = 0; t + 1 < b->n; t++) {
        double k = c->keep[t], beta = c->momentum[t], e = c->cross[t], u = c->fresh[t], y = beta * c->offset[t + 1];
        double noise = p == NULL ? 1 : p[t], *to = b->above + 5 * (t + 1);
        information o = observe(b->above + 5 * t, shift * v[t], c->offset[t]);
        double q1 = o.ll + u * o.lm, q2 = o.lm + u * o.mm, r = q1 + u * q2, d = 1 / (1 + noise * r);
        to[0] = k * k * r * d;
        to[1] = k * beta * q2 * d;
        to[2] = beta * beta * (o.mm + noise * o.det) * d;
        to[3] = (k * k * o.ll + 2 * k * e * o.lm + e * e * o.mm + noise * y * y * o.det) * d;
        to[4] = k * k * beta * beta * o.det * d;
        link *to_here = &b->links[t * b->nodes + node];
        to_here->e11 = k * d;
        to_here->e12 = -noise * beta * q2 * d;
        to_here->e21 = u * k * d;
        to_here->e22 = beta * (1 + noise * q1) * d;
    }
}

static void filter_below(const builder *b, const double *v, const double *p, double shift, double weight, int node) {
    const optimum_chain *c = &b->chain;
    double ll = 0, lm = 0, mm = 0, det = 0; /* of z_t given the observations after t */
    for (int64_t t = b->n - 1; t >= 0; t--) {
        double k = c->keep[t], beta = c->momentum[t], e = c->cross[t], u = c->fresh[t], z = c->offset[t];
        double noise = p == NULL ? 1 : p[t];
        if (t + 1 < b->n) { /* the observation at t + 1, then the step of the chain */
            double a = shift * v[t + 1], y = c->offset[t + 1];
            double lx = lm + y * ll, xx = mm + y * (lm + lx), r = 1 / (1 + a * xx);
            double mm_after = (mm + y * y * a * det) * r;
            ll = (ll + a * det) * r;
            lx *= r;
            xx *= r;
            det = beta * beta * (k * k * det * r + noise * mm_after);
            double g = beta * lx + e * ll;
            mm = beta * (beta * xx + e * lx) + e * g;
            lm = k * g;
            ll *= k * k;
        }
        ll += noise;
        lm += u * noise;
        mm += u * u * noise;
        information o = observe(b->above + 5 * t, shift * v[t], z);
        double scale = weight / (1 + o.ll * ll + 2 * o.lm * lm + o.mm * mm + o.det * det), off = lm - det * o.lm;
        link *here = &b->links[t * b->nodes + node];
        here->l = scale * (z * (ll + det * o.mm) + off);
        here->m = scale * (z * off + mm + det * o.ll);
    }
}

/* ---- all nodes, a block of columns ---- */

static dpmf_status fill_columns(void *context, int64_t item, int worker) {
    const builder *b = context;
    int64_t first = item * COLUMNS, n = b->n,
            last = n - first < COLUMNS ? n : first + COLUMNS; /* columns [first, last) */
    double *state = b->work + (int64_t)worker * b->nodes * 2 * COLUMNS;
    for (int64_t i = last - 1; i >= 0; i--) {
        double sum[COLUMNS] = {0}, z = b->chain.offset[i];
        int64_t from = i < first ? 0 : i - first, count = last - first;
        for (int j = 0; j < b->nodes; j++) {
            const link *here = &b->links[i * b->nodes + j];
            double *l = state + j * 2 * COLUMNS, *m = l + COLUMNS;
            for (int64_t k = i < first ? 0 : from + 1; k < count; k++) {
                double next = here->e11 * l[k] + here->e12 * m[k];
                m[k] = here->e21 * l[k] + here->e22 * m[k];
                l[k] = next;
            }
            if (i >= first) {
                l[from] = here->l;
                m[from] = here->m;
            }
            for (int64_t k = from; k < count; k++)
                sum[k] += z * l[k] + m[k];
        }
        for (int64_t k = from; k < count; k++)
            b->x[i * n + first + k] = b->x[(first + k) * n + i] = sum[k];
    }
    return DPMF_OK;
}

/* X, both triangles. */
static dpmf_status fill_named(const dpmf_workload *a, const optimum_answer *o, const dpmf_run *run, double *x) {
    builder b = {.x = x};
    base_quadrature rule;
    base_pool *pool = NULL;
    optimum_phi *phi = NULL;
    double low = 0, high = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_pool_create(run == NULL ? 0 : run->threads, &pool));
    TRY_DONE(optimum_phi_create(a, pool, &phi));
    TRY_DONE(optimum_phi_interval(phi, o->v, o->p, &low, &high));
    base_quadrature_fill(low, high, base_quadrature_nodes(high / low, 1e-13), &rule);
    b.n = a->steps;
    b.nodes = rule.count;
    TRY_DONE(optimum_chain_create(a, 0, &b.chain));
    TRY_DONE(base_alloc(b.n * rule.count, sizeof *b.links, "the links of a chain", (void **)&b.links));
    TRY_DONE(base_alloc_doubles(5 * b.n, "a filter", &b.above));
    TRY_DONE(base_alloc_doubles((int64_t)base_pool_threads(pool) * rule.count * 2 * COLUMNS, "columns of a matrix",
                                &b.work));
    for (int j = 0; j < rule.count; j++) {
        TRY_DONE(base_progress(run, "matrix", (double)j / rule.count / 4));
        filter_above(&b, o->v, o->p, rule.shift[j], j);
        filter_below(&b, o->v, o->p, rule.shift[j], rule.weight[j], j);
    }
    TRY_DONE(base_pool_run(pool, (b.n + COLUMNS - 1) / COLUMNS, fill_columns, &b));
    TRY_DONE(base_progress(run, "matrix", 0.75));
done:
    optimum_phi_free(phi);
    base_pool_free(pool);
    optimum_chain_free(&b.chain);
    base_free(b.links);
    base_free(b.above);
    base_free(b.work);
    return status;
}

static dpmf_status factor_named(const dpmf_workload *a, const optimum_answer *o, const dpmf_run *run, double *x) {
    int64_t n = a->steps;
    double largest = 0;
    TRY(fill_named(a, o, run, x));
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, x[i * n + i]);
    for (int64_t i = 0; i < n * n; i++)
        x[i] /= largest;
    for (int64_t i = 0; i < n; i++)
        x[i * n + i] = 1;
    base_reverse(n * n, x);
    return base_cholesky(n, x);
}

static dpmf_status factor_matrix(const dpmf_workload *a, const optimum_answer *o, double *x) {
    int64_t n = a->steps;
    double *z = NULL, *u = NULL, *wide = NULL, *values = NULL, *diagonal = NULL, largest = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_square(n, "the weighted workload", &z));
    TRY_DONE(base_alloc_square(n, "its singular vectors", &u));
    TRY_DONE(base_alloc_doubles(n, "its singular values", &values));
    TRY_DONE(base_alloc_doubles(n, "a diagonal", &diagonal));
    for (int64_t t = 0; t < n; t++)
        for (int64_t k = 0; k <= t; k++)
            z[t * n + k] = sqrt(o->p == NULL ? 1 : o->p[t]) * a->matrix[t * n + k] * sqrt(o->v[k]);
    TRY_DONE(base_svd(n, z, values, u)); /* the rows of z are the right singular vectors */
    base_free(u);
    u = NULL;
    TRY_DONE(base_alloc_doubles(2 * n * n, "a factor of X", &wide));
    for (int64_t i = 0; i < n; i++) { /* row n-1-i: row i of X^1/2 */
        double *row = wide + (n - 1 - i) * 2 * n;
        for (int64_t k = 0; k < n; k++)
            row[k] = z[k * n + i] * sqrt(values[k] / o->v[i]);
        diagonal[i] = base_dot(n, row, row);
        largest = fmax(largest, diagonal[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        double *row = wide + (n - 1 - i) * 2 * n;
        for (int64_t k = 0; k < n; k++)
            row[k] /= sqrt(largest);
        row[n + i] = sqrt(fmax(0, 1 - diagonal[i] / largest));
    }
    TRY_DONE(base_lq(n, 2 * n, wide, x));
done:
    base_free(z);
    base_free(u);
    base_free(wide);
    base_free(values);
    base_free(diagonal);
    return status;
}

dpmf_status optimum_explicit(const dpmf_workload *workload, const optimum_answer *optimum, const dpmf_run *run,
                             dpmf_strategy **out) {
    int64_t n = workload->steps;
    double *x = NULL;
    dpmf_status status = DPMF_OK;
    if (workload->form == WORKLOAD_OPERATOR)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "workload operator: its optimum is not known");
    if (n > STEPS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the optimal matrix for %lld steps, accepted up to %d", (long long)n,
                         STEPS_MAX);
    if (optimum->steps != n)
        return base_fail(DPMF_ERROR_ARGUMENT, "the optimum has %lld steps, the workload %lld",
                         (long long)optimum->steps, (long long)n);
    TRY(base_alloc_square(n, "the optimal matrix", &x));
    TRY_DONE(workload->form == WORKLOAD_NAMED ? factor_named(workload, optimum, run, x)
                                              : factor_matrix(workload, optimum, x));
    base_reverse_across(n, x);
    /* Column norms are 1 up to rounding; this makes them 1 to the last digits. */
    double *norms = NULL;
    TRY_DONE(base_alloc_doubles(n, "column norms", &norms));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            norms[j] += x[i * n + j] * x[i * n + j];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            x[i * n + j] /= sqrt(norms[j]);
    base_free(norms);
    TRY_DONE(strategy_create_matrix(n, x, out));
done:
    base_free(x);
    return status;
}
