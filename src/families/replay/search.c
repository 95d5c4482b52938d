/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the best TV-BLT with replayed seeds: limited-memory BFGS on the filter, the profile and the scales
 * together, from one generic start. P is eliminated exactly (families/replay/sensitivity.c), so every point of the search is
 * a mechanism of sensitivity 1, and the search is unconstrained.
 *
 * Max loss: from the RMS solution, p-norms of the squared errors with p = 40, 200, 1000; the point with the least
 * largest error is kept.
 *
 * Buffers for a wanted distance from a bound: one more at a time; twice the nodes where buffers alone do not help. Where
 * the caller takes what there is, the search ends when a buffer gains little.
 */
#include "families/replay/replay.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"

#include <math.h>
#include <string.h>

typedef replay_work work_t;
typedef replay_options options_t;
typedef replay_result result_t;

enum { ITERATIONS = 400, PAIRS = 30, PAST = 10 };
static const double DECREASE = 1e-5;
static const double LONG_DECREASE =
    3e-5; /* of long runs, where the last part in ten thousand takes a third of the time */
enum { LONG_STEPS = 50000 };

void replay_result_free(result_t *result) {
    replay_shape_free(&result->shape);
    base_free(result->parameters);
    *result = (result_t){0};
}

/*
 * Where the search for a TV-BLT with replayed seeds begins, and the scales of its unknowns.
 *
 * Start: C near A^1/2, which is near the optimum of one epoch but for its ends (Fichtenberger et al. 2023 for prefix sums). Its
 * coefficients c_1, c_2, ... are moments of a positive measure on [0, 1] for prefix sums, on [beta, 1] with momentum, so a sum
 * of positive exponentials G, sum_i omega_i lambda_i^(d-1), follows them; fitted at lags d spread geometrically to 2b, weighted
 * by |c_d|^-0.8 so that the long tail counts. The omega_i are linear and eliminated (Golub and Pereyra 1973), the lambda_i =
 * exp(-exp(-v_i)) are searched. F = 1/G has r real poles, and neither it nor its inverse can be unstable. Over several epochs,
 * and more so with momentum, A^1/2 remembers too much for P to be definite, so weaker ones of its kind are tried as well, and a
 * direct fit of F to A^-1/2 (better for long epochs, where the tail of G matters); the one with the least loss is taken.
 *
 * Scales: with s_q the number of positions that node q stands for, a change of h or kappa at one node changes the loss
 * like its share s_q/b of an epoch, so its unknown is measured in sqrt(b/s_q), and for buffer j in (1 - rho)/kappa, what
 * it takes to change the sum of its answers by as much as another buffer; logits of the profile matter 1/k as much
 * and twice squared; scales d are felt by all k epochs; logits of rho by all steps. Measured at n = 1000, k = 10, r = 3,
 * after 25 evaluations the loss is 1.8 % above the bound without this and 0.3 % with it.
 */

enum { R_MAX = REPLAY_BUFFERS_MAX, LAGS = 200 };

typedef struct fit {
    int r, lags;
    double lag[LAGS], value[LAGS], weight[LAGS];
    double omega[R_MAX];
} fit;

/* exp(-exp(-v) (d-1)) and its derivative by v, with the weight. */
static double term(const fit *f, int i, double v, double *slope) {
    const double rate = exp(-v), x = rate * (f->lag[i] - 1), e = f->weight[i] * exp(-x);
    *slope = e * x;
    return e;
}

/* The best omega for v by the normal equations, with a ridge that keeps them definite. 0: it did not. */
static int eliminate(fit *f, const double *v) {
    double gram[R_MAX * R_MAX] = {0}, right[R_MAX] = {0}, row[R_MAX], slope;
    const int r = f->r;
    for (int i = 0; i < f->lags; i++) {
        for (int j = 0; j < r; j++)
            row[j] = term(f, i, v[j], &slope);
        for (int j = 0; j < r; j++) {
            right[j] += row[j] * f->weight[i] * f->value[i];
            for (int l = 0; l < r; l++)
                gram[j * r + l] += row[j] * row[l];
        }
    }
    for (int j = 0; j < r; j++)
        gram[j * r + j] *= 1 + 1e-9;
    if (base_cholesky(r, gram) != DPMF_OK) return 0;
    base_lower_solve(r, gram, right, f->omega);
    for (int j = r - 1; j >= 0; j--) {
        for (int l = j + 1; l < r; l++)
            f->omega[j] -= gram[l * r + j] * f->omega[l];
        f->omega[j] /= gram[j * r + j];
    }
    return 1;
}

/* Sum of squares; its gradient by v alone, since omega is at its best. */
static dpmf_status fit_value(void *context, const double *v, double *value, double *gradient) {
    fit *f = context;
    double slope[R_MAX], sum = 0;
    *value = INFINITY;
    for (int j = 0; j < f->r; j++)
        if (!(fabs(v[j]) < 40)) return DPMF_OK;
    if (!eliminate(f, v)) return DPMF_OK;
    memset(gradient, 0, (size_t)f->r * sizeof *gradient);
    for (int i = 0; i < f->lags; i++) {
        double rest = -f->weight[i] * f->value[i];
        for (int j = 0; j < f->r; j++)
            rest += f->omega[j] * term(f, i, v[j], slope + j);
        sum += rest * rest;
        for (int j = 0; j < f->r; j++)
            gradient[j] += 2 * rest * f->omega[j] * slope[j];
    }
    *value = sum;
    return DPMF_OK;
}

/* Lags 1 to 2b (n-1 where that is less), geometrically. */
static dpmf_status take_series(const dpmf_workload *workload, double power, int64_t b, fit *f) {
    const int64_t count = 2 * b + 1 < workload->steps ? 2 * b + 1 : workload->steps;
    double *series = NULL, scale, largest = 0;
    dpmf_status status = DPMF_OK;
    int64_t last = 0;
    TRY(base_alloc_doubles(count, "the workload's square root", &series));
    TRY_DONE(workload_series(workload, power, count, series));
    scale = 1 / series[0];
    for (int i = 0; i < LAGS; i++) {
        int64_t lag = (int64_t)floor(pow(2.0 * (double)b, (double)i / (LAGS - 1)) + 0.5);
        if (lag <= last || lag >= count) continue;
        last = lag;
        f->lag[f->lags] = (double)lag;
        f->value[f->lags++] = scale * series[lag];
        largest = fmax(largest, fabs(scale * series[lag]));
    }
    for (int i = 0; i < f->lags; i++) /* a series that changes sign passes through 0 */
        f->weight[i] = pow(fmax(fabs(f->value[i]), 1e-3 * largest / f->lag[i]), -0.8);
done:
    base_free(series);
    return status;
}

static dpmf_status find_fit(const dpmf_workload *workload, double power, int64_t b, int r, double *rho, double *omega) {
    fit f = {.r = r};
    double v[R_MAX];
    const double high = log(fmax((double)b / 2, 8));
    base_minimum found = {0};
    const base_objective objective = {.count = r, .context = &f, .value = fit_value};
    const base_minimize_options options = {.gradient = 1e-8, .decrease = 1e-6, .iterations = 200};
    TRY(take_series(workload, power, b, &f));
    for (int j = 0; j < r; j++)
        v[j] = r == 1 ? 0.5 * high : -1.2 + (high + 1.2) * j / (r - 1);
    TRY(base_minimize(&objective, &options, v, &found));
    if (!eliminate(&f, v)) return base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: no exponentials fit the workload");
    for (int j = 0; j < r; j++) {
        rho[j] = exp(-exp(-v[j]));
        omega[j] = f.omega[j];
    }
    return DPMF_OK;
}

/*
 * G(z) = 1 + sum omega z / (1 - lambda z) is x <- L x + u, y = u + omega'x; its inverse has the state matrix
 * L - 1 omega', similar to L - s s' with s = sqrt(omega): F(z) = 1 - sum (v_i's)^2 z / (1 - rho_i z) with eigenvalues
 * rho_i below the lambda they interlace with, and eigenvectors v_i. In place.
 */
static dpmf_status invert(int r, double *pole, double *weight) {
    double matrix[R_MAX * R_MAX], root[R_MAX];
    for (int j = 0; j < r; j++)
        root[j] = sqrt(fmax(weight[j], 0));
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++)
            matrix[i * r + j] = (i == j ? pole[i] : 0) - root[i] * root[j];
    TRY(base_symmetric_eigen(r, matrix, pole));
    for (int i = 0; i < r; i++) {
        double dot = 0;
        for (int j = 0; j < r; j++)
            dot += matrix[i * r + j] * root[j];
        weight[i] = -dot * dot;
    }
    return DPMF_OK;
}

static const double POLE_LEAST = 0.02; /* one at or below 0 is a delay of one step, and this nearly is */

/* w->parameters: the filter 1 + sum omega z / (1 - rho z) at all steps. */
static void fill(work_t *w, const double *rho, const double *omega) {
    const replay_shape *s = &w->c.shape;
    const replay_view v = replay_look(s, w->parameters);
    const int r = s->buffers;
    /* with h = kappa = 0 a buffer would stay unused, the gradient being 0; the least weight of use is near b^-3/2 */
    const double size_least = 0.3 * pow((double)s->period, -0.75);
    memset(w->parameters, 0, (size_t)replay_count(s) * sizeof *w->parameters);
    for (int j = 0; j < r; j++) {
        const double kept = fmin(fmax(rho[j], POLE_LEAST), 1 - 1e-9);
        const double size = fmax(sqrt(fabs(omega[j]) / kept), size_least);
        v.logit[j] = log(kept / (1 - kept));
        for (int64_t i = 0; i < (int64_t)s->epochs * s->nodes; i++) {
            v.h[i * r + j] = omega[j] < 0 ? -size : size;
            v.kappa[i * r + j] = size;
        }
    }
}

/* Keeps w->parameters in `best` if their loss is the least so far. */
static dpmf_status consider(work_t *w, double *least, double *best) {
    double loss = INFINITY;
    TRY(replay_loss(w, w->parameters, &loss, NULL));
    if (!(loss < *least)) return DPMF_OK;
    *least = loss;
    memcpy(best, w->parameters, (size_t)replay_count(&w->c.shape) * sizeof *best);
    return DPMF_OK;
}

/*
 * Where the search begins: the same filter at every step, the inverse of the sum of r exponentials nearest to the first
 * 2b coefficients of A^1/2 (of the workload without its schedule), equal profiles and scales. Fills w->parameters.
 */
static dpmf_status replay_start(const dpmf_workload *workload, work_t *w) {
    static const double PARTS[] = {1, 0.9, 0.8, 0.65, 0.5, 0.3, 0.1, 0.01};
    const int r = w->c.shape.buffers;
    const int64_t b = w->c.shape.period, count = replay_count(&w->c.shape);
    double pole[R_MAX], weight[R_MAX], rho[R_MAX], omega[R_MAX], least = INFINITY, *best = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(count, "the start of the search", &best));
    TRY_DONE(find_fit(workload, -0.5, b, r, rho, omega));
    fill(w, rho, omega);
    TRY_DONE(consider(w, &least, best));
    TRY_DONE(find_fit(workload, 0.5, b, r, pole, weight));
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        for (int j = 0; j < r; j++) {
            rho[j] = pole[j];
            omega[j] = PARTS[i] * weight[j];
        }
        TRY_DONE(invert(r, rho, omega));
        fill(w, rho, omega);
        TRY_DONE(consider(w, &least, best));
    }
    if (!isfinite(least)) status = base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: no start for the search was found");
    memcpy(w->parameters, best, (size_t)count * sizeof *best);
done:
    base_free(best);
    return status;
}

void replay_scale(work_t *w) {
    const replay_shape *s = &w->c.shape;
    const replay_view v = replay_look(s, w->scales);
    const replay_view now = replay_look(s, w->parameters);
    const double root = sqrt((double)s->epochs), b = (double)s->period;
    const int r = s->buffers;
    double gain[R_MAX];
    for (int j = 0; j < r; j++) {
        const double rho = 1 / (1 + exp(-now.logit[j])), kappa = fabs(now.kappa[s->nodes / 2 * r + j]);
        gain[j] = fmin(fmax(1.6 * (1 - rho) / fmax(kappa, 1e-9), 0.05), 5);
    }
    for (int q = 0; q < s->nodes; q++) {
        const int64_t before = q > 0 ? s->node[q] - s->node[q - 1] : 1;
        const int64_t after = q + 1 < s->nodes ? s->node[q + 1] - s->node[q] : 1;
        const double size = sqrt(b / ((double)(before + after) / 2)); /* the hat function of the node sums to this */
        for (int e = 0; e < s->epochs; e++) {
            for (int j = 0; j < r; j++)
                v.h[(e * s->nodes + q) * r + j] = v.kappa[(e * s->nodes + q) * r + j] = size * gain[j];
            v.profile[e * s->nodes + q] = 2.2 * root * size;
        }
        v.scale[q] = size / root;
    }
    for (int j = 0; j < r; j++)
        v.logit[j] = 8 / root;
}

typedef struct search {
    work_t *work;
    int started;
    double first;        /* log of the loss at the start */
    double last, enough; /* log of the loss evaluated last; stop at this one */
} search;

static dpmf_status objective_value(void *context, const double *x, double *f, double *gradient) {
    search *s = context;
    work_t *w = s->work;
    const int64_t count = replay_count(&w->c.shape);
    for (int64_t i = 0; i < count; i++)
        w->parameters[i] = x[i] * w->scales[i];
    TRY(replay_loss(w, w->parameters, f, gradient));
    if (!isfinite(*f)) return DPMF_OK;
    if (s->started == 0) s->first = *f;
    s->started = 1;
    s->last = *f;
    *f = exp(*f - s->first); /* about 1, so that "a part of f" is one of the loss */
    for (int64_t i = 0; i < count; i++)
        gradient[i] *= w->scales[i] * *f;
    return DPMF_OK;
}

/* A step ends at the point that was evaluated last. */
static dpmf_status is_enough(void *context, const double *x, double gradient, int *end) {
    const search *s = context;
    (void)x, (void)gradient;
    *end = s->last <= s->enough;
    return DPMF_OK;
}

/* From result->parameters, which become the best point. */
static dpmf_status descend(work_t *w, const options_t *o, result_t *result) {
    const int64_t count = replay_count(&w->c.shape);
    search s = {.work = w, .enough = log(o->enough)};
    const base_objective objective = {.count = count, .context = &s, .value = objective_value};
    const double settled = w->c.shape.steps > LONG_STEPS ? LONG_DECREASE : DECREASE;
    const base_minimize_options options = {.gradient = 1e-9,
                                           .decrease = o->decrease > 0 ? o->decrease : settled,
                                           .past = PAST,
                                           .iterations = o->iterations > 0 ? o->iterations : ITERATIONS,
                                           .pairs = PAIRS,
                                           .what = "replayed seeds",
                                           .run = o->run,
                                           .enough = !o->max_loss && o->enough > 0 ? is_enough : NULL};
    base_minimum found = {0};
    double *x = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(count, "the unknowns", &x));
    for (int64_t i = 0; i < count; i++)
        x[i] = result->parameters[i] / w->scales[i];
    TRY_DONE(base_minimize(&objective, &options, x, &found));
    for (int64_t i = 0; i < count; i++)
        result->parameters[i] = x[i] * w->scales[i];
    result->iterations += found.iterations;
    result->evaluations += found.evaluations;
    result->converged = found.converged;
done:
    base_free(x);
    return status;
}

static dpmf_status measure(work_t *w, const options_t *o, result_t *result) {
    double ignored = 0;
    TRY(replay_loss(w, result->parameters, &ignored, NULL));
    result->loss = o->max_loss ? replay_largest(w) : replay_rms(w);
    return isfinite(ignored) ? DPMF_OK : base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: the search ended nowhere");
}

static dpmf_status level(work_t *w, const options_t *o, result_t *result) {
    static const double NORMS[] = {40, 200, 1000};
    const size_t bytes = (size_t)replay_count(&w->c.shape) * sizeof(double);
    double *best = NULL, least = INFINITY;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(replay_count(&w->c.shape), "the best parameters", &best));
    for (size_t i = 0; i < sizeof NORMS / sizeof *NORMS; i++) {
        w->norm = NORMS[i];
        TRY_DONE(descend(w, o, result));
        TRY_DONE(measure(w, o, result));
        if (result->loss < least) {
            least = result->loss;
            memcpy(best, result->parameters, bytes);
        }
    }
    memcpy(result->parameters, best, bytes);
    result->loss = least;
done:
    base_free(best);
    return status;
}

static dpmf_status attempt(const dpmf_workload *workload, int64_t period, int buffers, int density, const options_t *o,
                           result_t *out) {
    const int64_t n = workload->steps;
    work_t w = {0};
    result_t result = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_shape_create(n, period, buffers, density, &result.shape));
    TRY_DONE(replay_work_create(workload, &result.shape, o->pool, &w));
    const int64_t count = replay_count(&result.shape);
    TRY_DONE(base_alloc_doubles(count, "the parameters", &result.parameters));
    w.weights = o->weights;
    w.run = o->run;
    TRY_DONE(replay_start(workload, &w));
    replay_scale(&w);
    memcpy(result.parameters, w.parameters, (size_t)count * sizeof *result.parameters);
    TRY_DONE(descend(&w, o, &result));
    TRY_DONE(measure(&w, o, &result));
    if (o->max_loss) TRY_DONE(level(&w, o, &result));
    replay_result_free(out);
    *out = result;
    result = (result_t){0};
done:
    replay_work_free(&w);
    replay_result_free(&result);
    return status;
}

/* *best is the better of both, *now is freed. */
static void keep_better(result_t *best, result_t *now) {
    if (best->parameters == NULL || now->loss < best->loss) {
        result_t swap = *best;
        *best = *now;
        *now = swap;
    }
    replay_result_free(now);
}

static dpmf_status fewest(const dpmf_workload *workload, int64_t period, const options_t *o, result_t *out) {
    const double wanted = o->wanted_ratio * o->lower;
    result_t best = {0};
    int density = o->density > 0 ? o->density : 1;
    dpmf_status status = DPMF_OK;
    for (int buffers = 1; density <= 2; buffers++) {
        result_t now = {0};
        const double before = best.loss;
        const int first = best.parameters == NULL;
        TRY_DONE(attempt(workload, period, buffers, density, o, &now));
        keep_better(&best, &now);
        if (best.loss <= wanted) break;
        const int settled = o->settled > 0 && !first && buffers > 3 && best.loss > (1 - o->settled) * before;
        if (settled) break;
        if (buffers == REPLAY_BUFFERS_MAX) {
            buffers = 0;
            density++;
        }
    }
    if (best.loss > wanted && o->settled == 0)
        status =
            base_fail(DPMF_ERROR_NUMERICAL,
                      "replayed seeds: %d buffers reach a loss of %.10g, the wanted ratio needs %.10g: ask for more",
                      REPLAY_BUFFERS_MAX, best.loss, wanted);
    else
        *out = best;
done:
    if (status != DPMF_OK) replay_result_free(&best);
    return status;
}

dpmf_status replay_search(const dpmf_workload *workload, int64_t period, const options_t *o, result_t *out) {
    result_t result = {0};
    const int bounded = o->wanted_ratio > 1 && isfinite(o->wanted_ratio) && o->lower > 0;
    if (o->buffers == 0 && !bounded && !(o->settled > 0))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "replayed seeds: as many buffers as needed for a ratio of %g to a bound of %g, accepted: a "
                         "ratio above 1 and a positive bound",
                         o->wanted_ratio, o->lower);
    if (o->buffers == 0)
        TRY(fewest(workload, period, o, &result));
    else
        TRY(attempt(workload, period, o->buffers, o->density > 0 ? o->density : 1, o, &result));
    *out = result;
    return DPMF_OK;
}
