/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual of the optimal mechanism (optimum/optimum.c), climbed by limited-memory BFGS.
 *
 * RMS: maximise log sum phi(v) - 1/2 log sum v. Max loss: maximise log |W|_* over p, q in the simplex; both are concave
 * in the weights. With r_i = phi_i/v_i the derivative by v_i is r_i up to scale, and the optimum has r_i = mean where
 * v_i > 0 and r_i <= mean where v_i = 0.
 *
 * Unknowns are the square roots y_i of the weights. There the Hessian is that of the objective with row and column i
 * scaled by sqrt(v_i), whose eigenvalues stay within a factor of 50 or so (momentum 0.95), plus the slack mean - r_i on
 * the diagonal for weights that vanish: for max loss with momentum or a schedule the errors of many steps are not tight
 * and their weights are 0 (a fixed-point iteration on log v stalls there, since log v tends to minus infinity). Such a
 * weight must not be 0 during the ascent, since r_i is needed: a barrier (mu/n) sum log v_i keeps it at (mu/n)/slack.
 * At the barrier's own optimum the gap is mu exactly, so mu is lowered in a few stages to half the tolerance. RMS
 * optima have no zeros and need none.
 *
 * Every evaluation certifies (e the error of phi, sum v = 1):
 *
 *     RMS   (1 - e) sum phi / sqrt(n)    <= optimum <=  (1 + e) sqrt(sum phi max_i r_i / n)
 *     max   (1 - e) sum phi              <= optimum <=  (1 + e) sqrt(max_i r_i max_j s_j)
 *
 * r from the columns, s from the rows, s = reversed r for a Toeplitz A with p = reversed q.
 */
#include "optimum/ascent.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { EVALUATIONS_MAX = 5000, BACKTRACKS_MAX = 12, PAIRS = 10 };

/* A weight changes by at most the square of this in one step, since the quadratic model is valid nearby only. */
static const double CHANGE_MAX = 5;
/* Stages of the barrier: from the first value, or from the second near the top, by this factor. */
static const double BARRIER = 0.01, BARRIER_NEAR = 0.001, BARRIER_STAGE = 0.02;

dpmf_status optimum_ascent_create(const dpmf_workload *workload, int max_loss, const double *weights, base_pool *pool,
                                  optimum_ascent *out) {
    optimum_ascent s = {.n = workload->steps, .max_loss = max_loss, .weights = weights};
    dpmf_status status = DPMF_OK;
    s.mirrored = max_loss && workload->toeplitz;
    s.unknowns = max_loss && !s.mirrored ? 2 * s.n : s.n;
    double **const point[] = {&s.y, &s.next, &s.gradient, &s.next_gradient, &s.direction};
    for (int i = 0; i < 5; i++)
        TRY_DONE(base_alloc_doubles(s.unknowns, "the unknowns of the optimum", point[i]));
    double **const each[] = {&s.v, &s.columns, &s.best_v, &s.p, &s.best_p, &s.rows};
    int count = s.unknowns > s.n ? 6 : max_loss || weights != NULL ? 5 : 3;
    for (int i = 0; i < count; i++)
        TRY_DONE(base_alloc_doubles(s.n, "the weights of the optimum", each[i]));
    for (int64_t i = 0; i < s.unknowns; i++)
        s.y[i] = 1;
    TRY_DONE(optimum_phi_create(workload, pool, &s.phi));
    *out = s;
    s = (optimum_ascent){0};
done:
    optimum_ascent_free(&s);
    return status;
}

void optimum_ascent_free(optimum_ascent *s) {
    double *const all[] = {s->y,      s->v,    s->p,        s->columns,       s->rows,     s->best_v,
                           s->best_p, s->next, s->gradient, s->next_gradient, s->direction};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        base_free(all[i]);
    optimum_phi_free(s->phi);
    *s = (optimum_ascent){0};
}

static double gap(double lower, double upper) {
    return lower > 0 ? upper / lower - 1 : INFINITY;
}

double optimum_ascent_gap(const optimum_ascent *s) {
    return gap(s->lower, s->upper);
}

/* x^2 on the simplex. */
static void read_weights(int64_t n, const double *x, double *weights) {
    double sum = base_dot(n, x, x);
    for (int64_t i = 0; i < n; i++)
        weights[i] = x[i] * x[i] / sum;
}

/* The largest (a + floor)/b; infinite if one of them is not a number, since a bound must not overlook it. */
static double largest_ratio(int64_t n, const double *a, const double *b, double floor_) {
    double ratio = 0;
    int known = 1;
    for (int64_t i = 0; i < n; i++) {
        const double here = (a[i] + floor_) / b[i];
        known &= here >= 0;
        ratio = here > ratio ? here : ratio;
    }
    return known ? ratio : INFINITY;
}

/* The upper bound if every entry of phi were off by `floor_` at most. */
static double upper_bound(const optimum_ascent *s, double sum, double floor_) {
    double most = largest_ratio(s->n, s->columns, s->v, floor_), other = sum / (double)s->n;
    if (s->max_loss) other = s->mirrored ? most : largest_ratio(s->n, s->rows, s->p, floor_);
    const double upper = sqrt(most * other);
    return upper >= 0 ? upper : INFINITY;
}

static dpmf_status evaluate_phi(optimum_ascent *s, const double *y, double tolerance) {
    int64_t n = s->n;
    read_weights(n, y, s->v);
    if (s->weights != NULL) memcpy(s->p, s->weights, (size_t)n * sizeof *s->p);
    for (int64_t i = 0; i < n && s->mirrored; i++)
        s->p[i] = s->v[n - 1 - i];
    if (s->unknowns > n) read_weights(n, y + n, s->p);
    TRY(optimum_phi_eval(s->phi, s->v, s->p, tolerance, 0, s->columns, s->rows, &s->error));
    s->evaluations++;
    double sum = base_sum(n, s->columns), bare = s->max_loss ? sum : sum / sqrt((double)n);
    const double floor_ = optimum_phi_floor(s->phi), bare_upper = upper_bound(s, sum, 0);
    double lower = bare * (1 - s->error);
    double upper = (floor_ > 0 ? upper_bound(s, sum, floor_) : bare_upper) * (1 + s->error);
    if (!(upper >= 0)) upper = INFINITY;
    if (!(lower > 0 && isfinite(lower))) lower = 0;
    s->here = gap(lower, upper);
    s->spread = gap(bare, bare_upper);
    if (upper < s->upper) {
        double scale = s->max_loss ? 1 : sum * sum; /* phi(c v) = sqrt(c) phi(v) */
        for (int64_t i = 0; i < s->n; i++)
            s->best_v[i] = scale * s->v[i];
        if (s->p != NULL) memcpy(s->best_p, s->p, (size_t)s->n * sizeof *s->p);
    }
    s->upper = fmin(s->upper, upper);
    s->lower = fmax(s->lower, lower);
    return DPMF_OK;
}

/* Minus the objective with its barrier at y, just evaluated, and its gradient. Mirrored weights have two places: factor 2. */
static double objective(const optimum_ascent *s, const double *y, double barrier, double *gradient) {
    int64_t n = s->n;
    double sum = base_sum(n, s->columns), value = -log(sum), times = s->mirrored ? 2 : 1;
    for (int64_t part = 0; part * n < s->unknowns; part++) {
        const double *x = y + part * n, *weights = part == 0 ? s->v : s->p, *values = part == 0 ? s->columns : s->rows;
        double norm = base_dot(n, x, x), each = barrier / (double)n, logs = 0;
        for (int64_t i = 0; i < n; i++) {
            double pull = values[i] / (weights[i] * sum) - 1 + each / weights[i] - barrier;
            gradient[part * n + i] = -times * x[i] / norm * pull;
            if (barrier > 0) logs += log(weights[i]);
        }
        value -= times * each / 2 * logs;
    }
    return value;
}

/* At the barrier's optimum a weight is (barrier/n)/slack, slack < 1 + barrier: half the root is out of its way. */
static double least(const optimum_ascent *s, const double *x, double barrier) {
    return barrier > 0 ? 0.5 * sqrt(barrier / (double)s->n) * base_norm(s->n, x) : 0;
}

/* b if a is not a number. */
static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Moves from y to s->next along the direction, every unknown within CHANGE_MAX of itself; returns the expected change. */
static double move(optimum_ascent *s, double length, double barrier) {
    double change = 0;
    for (int64_t part = 0; part < s->unknowns; part += s->n) {
        const double bottom = least(s, s->y + part, barrier);
        for (int64_t i = part; i < part + s->n; i++) {
            const double y = s->y[i], low = larger(y / CHANGE_MAX, bottom), high = y * CHANGE_MAX;
            const double next = larger(y + length * s->direction[i], low);
            s->next[i] = next < high ? next : high;
            change += s->gradient[i] * (s->next[i] - y);
        }
    }
    return change;
}

/* Backtracking (Armijo). *value and the gradient are those of y before and after; *moved: there was a step. */
static dpmf_status search_line(optimum_ascent *s, double rule, double barrier, double *value, int *moved) {
    double length = 1, noise = s->error;
    *moved = 0;
    for (int k = 0; k < BACKTRACKS_MAX && !*moved; k++, length *= 0.4) {
        double change = move(s, length, barrier);
        TRY(evaluate_phi(s, s->next, rule));
        double next = objective(s, s->next, barrier, s->next_gradient);
        /* a smaller difference of the objective is below the error of phi */
        *moved = next <= *value + 1e-4 * change + noise + s->error;
        if (*moved) *value = next;
    }
    return DPMF_OK;
}

static void swap(double **a, double **b) {
    double *kept = *a;
    *a = *b;
    *b = kept;
}

static dpmf_status climb_dual(optimum_ascent *s, minimize_lbfgs *memory, double tolerance, double barrier) {
    double last = s->max_loss ? tolerance / 2 : 0, finest = 0.05 * tolerance, start;
    int moved = 1;
    for (int64_t part = 0; part < s->unknowns; part += s->n) {
        double bottom = least(s, s->y + part, barrier);
        for (int64_t i = part; i < part + s->n; i++)
            s->y[i] = larger(s->y[i], bottom);
    }
    optimum_phi_watch(s->phi, s->run, 0);
    TRY(evaluate_phi(s, s->y, fmax(finest, 1e-4)));
    double value = objective(s, s->y, barrier, s->gradient);
    start = s->here;
    if (!isfinite(value)) return base_fail(DPMF_ERROR_NUMERICAL, "optimum: the workload is beyond double precision");
    while (optimum_ascent_gap(s) > tolerance && s->evaluations < EVALUATIONS_MAX) {
        double done = log(start / optimum_ascent_gap(s)) / log(fmax(start / tolerance, 2));
        done = !s->coarse && isfinite(done) ? fmin(1, fmax(0, done)) : 0;
        TRY(base_progress(s->run, "optimum", optimum_phi_watch(s->phi, s->run, done)));
        if (barrier > last && (s->here < 3 * barrier || !moved)) {
            barrier = fmax(barrier * BARRIER_STAGE, last);
            minimize_lbfgs_forget(memory);
            TRY(evaluate_phi(s, s->y, finest)); /* a failed search has left the values of another point */
            value = objective(s, s->y, barrier, s->gradient);
        } else if (!moved) {
            if (memory->used == 0) break; /* not even along the gradient */
            minimize_lbfgs_forget(memory);
        }
        /* far from the top a rule with few nodes suffices */
        double rule = fmax(finest, fmin(1e-3, 1e-3 * optimum_ascent_gap(s)));
        minimize_lbfgs_direction(memory, s->gradient, s->direction);
        TRY(search_line(s, rule, barrier, &value, &moved));
        if (!moved) continue;
        minimize_lbfgs_remember(memory, s->y, s->gradient, s->next, s->next_gradient);
        swap(&s->y, &s->next);
        swap(&s->gradient, &s->next_gradient);
        if (rule <= finest && s->spread < 0.05 * s->here) break; /* the rest is the error of phi */
    }
    return DPMF_OK;
}

dpmf_status optimum_ascent_run(optimum_ascent *s, double tolerance, int near) {
    minimize_lbfgs memory = {0};
    s->lower = 0;
    s->upper = INFINITY;
    TRY(minimize_lbfgs_create(s->unknowns, PAIRS, &memory));
    dpmf_status status = climb_dual(s, &memory, tolerance, !s->max_loss ? 0 : near ? BARRIER_NEAR : BARRIER);
    minimize_lbfgs_free(&memory);
    return status;
}
