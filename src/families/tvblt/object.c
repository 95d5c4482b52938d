/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT strategies (families/tvblt/tvblt.h): C^-1 is a stream with R buffers, a form of the BLT of McMahan et al. 2024 whose
 * coefficients vary with time, and C is the inverse system, which is as cheap:
 *
 *     z_t = (y_t - sum over nodes of x_node) / diagonal_t,    x <- F_t x + gain_t z_t.
 */
#include "families/tvblt/tvblt.h"

#include "base/memory.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { STATES_MAX = TVBLT_STATES_MAX };

static void tvblt_release(dpmf_strategy *s) {
    tvblt_free(&((tvblt_strategy *)s)->c);
}

static dpmf_status tvblt_apply(const dpmf_strategy *s, const double *x, double *y) {
    const tvblt_parameters *c = tvblt_of(s);
    double state[STATES_MAX] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        y[t] = (x[t] - tvblt_output(c, state)) / c->diagonal[t];
        tvblt_advance(c, t, y[t], state);
    }
    return DPMF_OK;
}

static dpmf_status tvblt_solve(const dpmf_strategy *s, const double *y, double *x) {
    const tvblt_parameters *c = tvblt_of(s);
    double state[STATES_MAX] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        x[t] = c->diagonal[t] * y[t] + tvblt_output(c, state);
        tvblt_advance(c, t, y[t], state);
    }
    return DPMF_OK;
}

static int64_t tvblt_buffers(const dpmf_strategy *s) {
    return tvblt_states(tvblt_of(s));
}

static void tvblt_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                       double *row) {
    const tvblt_parameters *c = tvblt_of(s);
    int states = tvblt_states(c), r = c->nodes;
    const double *keep = c->keep + t * states, *gain = c->gain + t * states;
    for (int64_t i = 0; i < count; i++)
        row[i] = c->diagonal[t] * seed[i];
    for (int j = 0; j < r && c->order == 1; j++) {
        double *x = state + j * count;
        for (int64_t i = 0; i < count; i++) {
            row[i] += x[i];
            x[i] = keep[j] * x[i] + gain[j] * seed[i];
        }
    }
    for (int j = 0; j < r && c->order == 2; j++) {
        double *x = state + j * count, *second = state + (r + j) * count;
        for (int64_t i = 0; i < count; i++) {
            double change = keep[j] * x[i] + keep[r + j] * second[i];
            row[i] += x[i];
            x[i] += change + gain[j] * seed[i];
            second[i] = change + gain[r + j] * seed[i];
        }
    }
}

/* The impulse response of C: nothing happens before step j. */
static dpmf_status tvblt_column(const dpmf_strategy *s, int64_t j, double *column) {
    const tvblt_parameters *c = tvblt_of(s);
    double state[STATES_MAX] = {0};
    memset(column, 0, (size_t)s->steps * sizeof *column);
    for (int64_t t = j; t < s->steps; t++) {
        column[t] = ((t == j) - tvblt_output(c, state)) / c->diagonal[t];
        tvblt_advance(c, t, column[t], state);
    }
    return DPMF_OK;
}

static dpmf_status tvblt_column_norms(const dpmf_strategy *s, double *norms) {
    int64_t bad = tvblt_square_norms(tvblt_of(s), norms);
    if (bad >= 0)
        return base_fail(DPMF_ERROR_NUMERICAL, "tvblt: the norm of column %lld is not positive and finite",
                         (long long)bad);
    for (int64_t t = 0; t < s->steps; t++)
        norms[t] = sqrt(norms[t]);
    return DPMF_OK;
}

static dpmf_status gram(const dpmf_strategy *s, int64_t lag, double *values) {
    return tvblt_gram(tvblt_of(s), lag, values);
}

static void tvblt_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const tvblt_parameters *c = tvblt_of(s);
    base_json_integer(w, "order", c->order);
    base_tensors_add(tensors, "strategy.diagonal", s->steps, 0, c->diagonal);
    base_tensors_add(tensors, "strategy.keep", s->steps, tvblt_states(c), c->keep);
    base_tensors_add(tensors, "strategy.gain", s->steps, tvblt_states(c), c->gain);
}

static void gram_prepare(const dpmf_strategy *s, double *prepared) {
    tvblt_gram_vectors(tvblt_of(s), prepared);
}

static void gram_row(const dpmf_strategy *s, const double *prepared, int64_t t, int64_t count, double *values) {
    tvblt_gram_row(tvblt_of(s), prepared, t, count, values);
}

/*
 * Error of a TV-BLT under a named workload: the noise y_t = l_t z_t + h'x_t, x_{t+1} = F_t x_t + g_t z_t (families/tvblt/tvblt.h)
 * drives the workload's recursion on (m, o) (error/error.h). Keep the covariance P of x, and of x with m and o:
 *
 *     Var y_t = l_t^2 + h'P h,  Cov(x_{t+1}, y_t) = F P h + g l_t,  P <- F P F' + g g'
 *     Cov(x_{t+1}, m_t) = beta F Cov(x_t, m_{t-1}) + Cov(x_{t+1}, y_t)       and o alike.
 *
 * O(n R^2). Everything is taken from the stored coefficients, so it is the error of the stream that runs.
 */

typedef struct covariances {
    double xx[STATES_MAX * STATES_MAX], xm[STATES_MAX], xo[STATES_MAX];
} covariances;

/* Step t of the block, whose noise is multiplied by `scale`. */
static void advance_tvblt(const tvblt_parameters *c, int64_t t, double scale, const error_drive *d, covariances *k,
                          error_moments *moments) {
    int states = tvblt_states(c);
    const double *gain = c->gain + t * states;
    double seed = c->diagonal[t], xy[STATES_MAX];
    tvblt_seen(c, k->xx, xy);
    error_moments_advance(d, scale * scale * (seed * seed + tvblt_output(c, xy)), scale * tvblt_output(c, k->xm),
                          scale * tvblt_output(c, k->xo), moments);
    tvblt_push(c, t, xy);
    tvblt_push(c, t, k->xm);
    tvblt_push(c, t, k->xo);
    for (int i = 0; i < states; i++) {
        double now = scale * (xy[i] + gain[i] * seed); /* Cov(x_{t+1}, y_t) */
        k->xo[i] = d->keep * k->xo[i] + d->p * k->xm[i] + d->g * now;
        k->xm[i] = d->beta * k->xm[i] + now;
    }
    tvblt_push_covariance(c, t, k->xx);
}

dpmf_status tvblt_errors(const dpmf_workload *a, const tvblt_parameters *c, int64_t stamps, const double *scale,
                         const dpmf_run *run, double *per_step) {
    error_moments moments = {0};
    covariances k;
    for (int64_t stamp = 0; stamp < stamps; stamp++) {
        memset(&k, 0, sizeof k); /* the noise restarts, the workload does not */
        for (int64_t t = 0; t < c->steps; t++) {
            int64_t at = stamp * c->steps + t;
            TRY(error_report(run, at, stamps * c->steps, 8 * (int64_t)(c->nodes * c->nodes)));
            error_drive d = error_drive_at(a, at);
            advance_tvblt(c, t, scale == NULL ? 1 : scale[at], &d, &k, &moments);
            per_step[at] = moments.oo;
        }
    }
    return DPMF_OK;
}

static dpmf_status tvblt_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    *done = q->a->form == WORKLOAD_NAMED;
    return *done ? tvblt_errors(q->a, tvblt_of(s), q->stamps, q->scale, q->run, squares) : DPMF_OK;
}

/*
 * The noise of a TV-BLT, for the route of few buffers (noise/plan.c): y = diagonal z + sum_j x_j,
 * x_j <- x_j + ((keep_j - 1) x_j + gain_j z), or of order 2.
 *
 * The arithmetic of its exact rows (docs/exactness.md): e <- Phi e + delta, Phi = A - g c'/D the recursion of C;
 * |c'e| <= sqrt(t) sqrt(c'P c) by Cauchy and Schwarz, P <- Phi P Phi' + diag(delta^2).
 */

static void fill_weights(const noise_stream *s, int64_t t, double factor, void *weight) {
    const tvblt_parameters *c = tvblt_of(s->plan.leaf);
    int states = tvblt_states(c);
    noise_put(s, weight, 0, c->diagonal[t]);
    for (int j = 0; j < states; j++) {
        double keep = c->keep[t * states + j];
        noise_put(s, weight, 1 + j, c->order == 1 ? keep - 1 : keep);
        noise_put(s, weight, 1 + states + j, c->gain[t * states + j]);
    }
    noise_put(s, weight, 1 + 2 * states, factor);
}

enum { BOUNDED_MAX = 128 };

typedef struct analysis {
    const tvblt_parameters *c;
    int states;
    double covariance[BOUNDED_MAX][2]; /* of x_j, and order 2: with its x'_j (of x_j) or with x_j (of x'_j) */
    double size[BOUNDED_MAX];          /* NOISE_TAILS standard deviations, the largest so far */
    double p[BOUNDED_MAX * BOUNDED_MAX];
} analysis;

/* v <- Phi v at step t. */
static void apply_recursion(const analysis *a, int64_t t, double *v, int stride) {
    const int nodes = a->c->nodes, states = a->states;
    const double *keep = a->c->keep + t * states, *gain = a->c->gain + t * states;
    double sum = 0;
    for (int j = 0; j < nodes; j++)
        sum += v[j * stride];
    const double z = -sum / a->c->diagonal[t];
    for (int j = 0; j < nodes; j++) {
        const double x = v[j * stride];
        if (a->c->order == 1) {
            v[j * stride] = keep[j] * x + gain[j] * z;
        } else {
            const double change = keep[j] * x + keep[nodes + j] * v[(nodes + j) * stride];
            v[j * stride] = x + change + gain[j] * z;
            v[(nodes + j) * stride] = change + gain[nodes + j] * z;
        }
    }
}

/* The covariance of the buffers, driven by independent seeds, one step on. */
static void grow_buffers(analysis *a, int64_t t) {
    const int nodes = a->c->nodes, states = a->states;
    const double *keep = a->c->keep + t * states, *gain = a->c->gain + t * states;
    for (int j = 0; j < nodes; j++) {
        double *own = a->covariance[j], *other = a->covariance[nodes + j];
        if (a->c->order == 1) {
            own[0] = keep[j] * keep[j] * own[0] + gain[j] * gain[j];
        } else {
            const double k = keep[j], l = keep[nodes + j], g = gain[j], h = gain[nodes + j];
            const double xx = own[0], xy = own[1], yy = other[0];
            own[0] = (1 + k) * (1 + k) * xx + 2 * (1 + k) * l * xy + l * l * yy + g * g;
            own[1] = (1 + k) * k * xx + (1 + 2 * k) * l * xy + l * l * yy + g * h;
            other[0] = k * k * xx + 2 * k * l * xy + l * l * yy + h * h;
        }
    }
    for (int j = 0; j < states; j++)
        a->size[j] = noise_larger(a->size[j], NOISE_TAILS * sqrt(a->covariance[j][0]));
}

/* P <- Phi P Phi' + what this step's roundings add; returns the bound on the error of the buffers' sum before it. */
static double step_errors(analysis *a, int64_t t, int64_t local) {
    const int nodes = a->c->nodes, states = a->states;
    const double *keep = a->c->keep + t * states, *gain = a->c->gain + t * states;
    double now = 0, total = 0;
    for (int i = 0; i < nodes; i++) {
        total += a->size[i];
        for (int j = 0; j < nodes; j++)
            now += a->p[i * states + j];
    }
    const double error = sqrt((double)local * noise_larger(now, 0)) + (states + 3) * NOISE_EPS * total;
    for (int j = 0; j < states; j++)
        apply_recursion(a, t, a->p + j, states); /* columns */
    for (int i = 0; i < states; i++)
        apply_recursion(a, t, a->p + i * states, 1); /* rows */
    grow_buffers(a, t);
    const double seed = NOISE_TAILS + (states + 3) * total / a->c->diagonal[t];
    for (int j = 0; j < states; j++) {
        const int node = j % nodes, second = a->c->order == 2;
        const double sizes = a->size[node] + (second ? a->size[nodes + node] : 0),
                     factors = 1 + fabs(keep[node]) + (second ? fabs(keep[nodes + node]) : 0),
                     delta = 8 * NOISE_EPS * (factors * sizes + fabs(gain[j]) * seed);
        a->p[j * states + j] += delta * delta;
    }
    return error;
}

static dpmf_status bound_arithmetic(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const tvblt_parameters *c = tvblt_of(plan->leaf);
    analysis *a = NULL;
    (void)run;
    double eta = 0, reach = 0, squares = 0;
    if (tvblt_states(c) > BOUNDED_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "exact noise of a TV-BLT: %d buffers, accepted up to %d",
                         tvblt_states(c), BOUNDED_MAX);
    TRY(base_alloc(1, sizeof *a, "the errors of buffers", (void **)&a));
    for (int64_t t = 0; t < plan->strategy->steps; t++) {
        const int64_t local = t % plan->length;
        const double factor = fabs(noise_route_factor(plan, t)), own = factor * fabs(c->diagonal[local]);
        if (local == 0) {
            memset(a, 0, sizeof *a);
            a->c = c;
            a->states = tvblt_states(c);
        }
        double total = 0;
        for (int j = 0; j < c->nodes; j++)
            total += a->size[j];
        reach = noise_larger(reach, factor * total + NOISE_TAILS * own);
        eta = noise_larger(eta, factor * step_errors(a, local, local));
        squares += 1 / (own * own);
    }
    base_free(a);
    *out = (noise_exact_bounds){1.01 * eta, reach, sqrt(squares)}; /* 1.01: this computation's own rounding */
    return DPMF_OK;
}

static void tvblt_plan_noise(noise_plan *plan) {
    const tvblt_parameters *c = tvblt_of(plan->leaf);
    const noise_states states = {c->order == 1 ? DPMF_RECIPE_TVBLT : DPMF_RECIPE_TVBLT_SECOND, c->nodes, fill_weights};
    noise_plan_states(plan, &states);
    plan->bound = bound_arithmetic;
}

static const strategy_ops TVBLT = {.class_name = "tvblt",
                                   .release = tvblt_release,
                                   .apply = tvblt_apply,
                                   .solve = tvblt_solve,
                                   .step = tvblt_step,
                                   .buffers = tvblt_buffers,
                                   .column = tvblt_column,
                                   .column_norms = tvblt_column_norms,
                                   .gram = gram,
                                   .gram_numbers = tvblt_buffers,
                                   .gram_prepare = gram_prepare,
                                   .gram_row = gram_row,
                                   .squared_errors = tvblt_squared_errors,
                                   .plan_noise = tvblt_plan_noise,
                                   .write = tvblt_write};

dpmf_status tvblt_create(tvblt_parameters *c, dpmf_strategy **out) {
    tvblt_strategy *s = NULL;
    TRY(strategy_new(&TVBLT, sizeof *s, DPMF_FAMILY_TVBLT, c->steps, (dpmf_strategy **)&s));
    s->c = *c;
    *c = (tvblt_parameters){0};
    *out = &s->base;
    return DPMF_OK;
}

dpmf_status tvblt_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *diagonal = NULL, *keep = NULL, *gain = NULL;
    int64_t order = 0;
    tvblt_parameters c = {0};
    dpmf_status status = DPMF_OK;
    TRY(base_json_get_integer(source->object, "order", "strategy", 1, 2, &order));
    TRY(strategy_array(source, "strategy.diagonal", source->steps, 0, &diagonal));
    TRY(strategy_array(source, "strategy.keep", source->steps, -1, &keep));
    int64_t states = keep->shape[1];
    if (states < order || states % order != 0 || states / order > TVBLT_NODES_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: tvblt with %lld buffers, accepted %lld to %lld",
                         (long long)states, (long long)order, (long long)(order * TVBLT_NODES_MAX));
    TRY(strategy_array(source, "strategy.gain", source->steps, states, &gain));
    for (int64_t t = 0; t < source->steps; t++)
        if (!(diagonal->values[t] > 0))
            return base_fail(DPMF_ERROR_FORMAT, "mechanism file: tvblt, diagonal %lld = %g, accepted: positive",
                             (long long)t, diagonal->values[t]);
    TRY(tvblt_alloc(source->steps, (int)(states / order), (int)order, &c));
    memcpy(c.diagonal, diagonal->values, (size_t)source->steps * sizeof(double));
    memcpy(c.keep, keep->values, (size_t)(source->steps * states) * sizeof(double));
    memcpy(c.gain, gain->values, (size_t)(source->steps * states) * sizeof(double));
    status = tvblt_create(&c, out);
    tvblt_free(&c);
    return status;
}
