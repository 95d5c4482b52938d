/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loss of a TV-BLT with replayed seeds as a function of its parameters, and its gradient: forwards
 *
 *     parameters -> h, beta, rho, profile, d -> P (pairs) -> V (classes) -> errors -> loss
 *
 * and the same way back. The sensitivity is 1 by construction (families/replay/sensitivity.c), so the loss is that of the
 * errors alone. A gradient costs about three evaluations, O(n k r^2).
 */
#include "families/replay/search.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef replay_work work_t;
typedef replay_adjoint adjoint_t;

/* ---- room ---- */

static void adjoint_free(adjoint_t *d) {
    double *all[] = {d->h,         d->beta,          d->profile,    d->scale,   d->rho,   d->covariance,
                     d->precision, d->through_zeta,  d->values,     d->zeta,    d->gram,  d->q,
                     d->w,         d->psi,           d->whole,      d->squares, d->gamma, d->omega,
                     d->error_w,   d->error_through, d->error_whole};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        base_free(all[i]);
    *d = (adjoint_t){0};
}

static dpmf_status adjoint_alloc(const replay_shape *s, int states, adjoint_t *out) {
    const int64_t k = s->epochs, b = s->period, r = s->buffers, m = states, pairs = replay_pairs(s);
    adjoint_t d = {0};
    const struct {
        double **array;
        int64_t count;
    } all[] = {{&d.h, k * b * r},          {&d.beta, k * b * r},
               {&d.profile, k * b},        {&d.scale, k * b},
               {&d.rho, (pairs + k) * r},  {&d.covariance, pairs * b},
               {&d.precision, pairs * b},  {&d.through_zeta, k * k * b},
               {&d.values, pairs * b},     {&d.zeta, k * k * b * r},
               {&d.gram, pairs * r * r},   {&d.q, k * b * r},
               {&d.w, k * b * r},          {&d.psi, k * (b + 1) * r * r},
               {&d.whole, k * r * r},      {&d.squares, k * b},
               {&d.gamma, k * b * m},      {&d.omega, k * b * m},
               {&d.error_w, k * b * m},    {&d.error_through, k * k * m * m},
               {&d.error_whole, k * m * m}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        dpmf_status status = base_alloc_doubles(all[i].count, "derivatives of the loss", all[i].array);
        if (status != DPMF_OK) {
            adjoint_free(&d);
            return status;
        }
    }
    *out = d;
    return DPMF_OK;
}

/* What is only added to. */
void replay_adjoint_clear(work_t *w) {
    const replay_shape *s = &w->c.shape;
    adjoint_t *d = &w->adjoint;
    const int64_t k = s->epochs, b = s->period, r = s->buffers, m = w->error.states, pairs = replay_pairs(s);
    const struct {
        double *array;
        int64_t count;
    } all[] = {{d->h, k * b * r},
               {d->beta, k * b * r},
               {d->scale, k * b},
               {d->rho, (pairs + k) * r},
               {d->q, k * b * r},
               {d->w, k * b * r},
               {d->psi, k * (b + 1) * r * r},
               {d->whole, k * r * r},
               {d->covariance, pairs * b},
               {d->error_w, k * b * m},
               {d->error_through, k * k * m * m},
               {d->error_whole, k * m * m}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        memset(all[i].array, 0, (size_t)all[i].count * sizeof *all[i].array);
}

void replay_work_free(work_t *w) {
    replay_free(&w->c);
    replay_filter_free(&w->filter);
    replay_gram_free(&w->gram);
    replay_error_free(&w->error);
    adjoint_free(&w->adjoint);
    base_free(w->parameters);
    base_free(w->scales);
    *w = (work_t){0};
}

dpmf_status replay_work_create(const dpmf_workload *workload, const replay_shape *shape, base_pool *pool, work_t *out) {
    work_t w = {.pool = pool, .norm = 1};
    const int64_t count = replay_count(shape);
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_alloc(shape, &w.c));
    TRY_DONE(replay_filter_alloc(shape, &w.filter));
    TRY_DONE(replay_gram_alloc(shape, 1, &w.gram));
    TRY_DONE(replay_error_alloc(workload, shape, &w.error));
    TRY_DONE(adjoint_alloc(shape, w.error.states, &w.adjoint));
    TRY_DONE(base_alloc_doubles(count, "the parameters", &w.parameters));
    TRY_DONE(base_alloc_doubles(count, "scales of the parameters", &w.scales));
    *out = w;
    w = (work_t){0};
done:
    replay_work_free(&w);
    return status;
}

/* ---- the loss of the errors ---- */

static double weight(const work_t *w, int64_t t) {
    return w->weights == NULL ? 1 : w->weights[t];
}

double replay_largest(const work_t *w) {
    double largest = 0;
    for (int64_t t = 0; t < w->c.shape.steps; t++)
        largest = fmax(largest, w->error.squares[t]);
    return sqrt(largest);
}

double replay_rms(const work_t *w) {
    double sum = 0;
    for (int64_t t = 0; t < w->c.shape.steps; t++)
        sum += weight(w, t) * w->error.squares[t];
    return sqrt(sum / (double)w->c.shape.steps);
}

/* log of the loss and its derivatives by the squared errors. */
double replay_loss_of_errors(work_t *w) {
    const int64_t n = w->c.shape.steps;
    const double largest = pow(replay_largest(w), 2), *e = w->error.squares;
    double sum = 0, *bar = w->adjoint.squares;
    for (int64_t t = 0; t < n; t++) {
        const double x = e[t] / largest, high = w->norm == 1 ? 1 : pow(x, w->norm - 1);
        bar[t] = weight(w, t) * high;
        sum += bar[t] * x;
    }
    for (int64_t t = 0; t < n; t++)
        bar[t] *= 0.5 / (sum * largest);
    return 0.5 * log(largest) + 0.5 / w->norm * log(sum / (double)n);
}

/* ---- back to the parameters ---- */

/* values = d^2 profile on the diagonal; the softmax; sums over the epochs for d. */
static void profile_adjoint(work_t *w) {
    const replay_shape *s = &w->c.shape;
    const int64_t b = s->period;
    adjoint_t *d = &w->adjoint;
    for (int64_t p = 0; p < b; p++) {
        const int k = replay_members(s, p);
        const double scale = w->c.scale[p];
        double mean = 0, log_scale = 0;
        for (int e = 0; e < s->epochs; e++) {
            const double bar = e < k ? d->values[replay_pair(e, e) * b + p] : 0;
            d->profile[e * b + p] = scale * scale * bar;
            mean += w->c.profile[e * b + p] * d->profile[e * b + p];
            log_scale += scale * d->scale[e * b + p];
        }
        for (int e = 0; e < s->epochs; e++)
            d->profile[e * b + p] = w->c.profile[e * b + p] * (d->profile[e * b + p] - mean);
        d->scale[p] = log_scale + 2 * mean; /* by log d */
    }
}

void replay_rho_adjoint(work_t *w, double *logit_) {
    const replay_shape *s = &w->c.shape;
    const int r = s->buffers;
    const int64_t items = replay_pairs(s) + s->epochs;
    double sum[REPLAY_BUFFERS_MAX] = {0};
    for (int64_t i = 0; i < items * r; i++)
        sum[i % r] += w->adjoint.rho[i];
    for (int64_t i = 0; i < s->epochs * s->period * r; i++) { /* beta = rho kappa */
        sum[i % r] += w->adjoint.beta[i] * w->c.beta[i] / w->c.rho[i % r];
        w->adjoint.beta[i] *= w->c.rho[i % r];
    }
    for (int j = 0; j < r; j++)
        logit_[j] = sum[j] * w->c.rho[j] * (1 - w->c.rho[j]);
}

static void parameters_adjoint(work_t *w, double *gradient) {
    const replay_shape *s = &w->c.shape;
    const replay_view v = replay_look(s, gradient);
    const int64_t b = s->period, q = s->nodes;
    const int r = s->buffers;
    memset(gradient, 0, (size_t)replay_count(s) * sizeof *gradient);
    profile_adjoint(w);
    replay_rho_adjoint(w, v.logit);
    for (int e = 0; e < s->epochs; e++) {
        replay_gather(s, r, w->adjoint.h + e * b * r, v.h + e * q * r);
        replay_gather(s, r, w->adjoint.beta + e * b * r, v.kappa + e * q * r);
        replay_gather(s, 1, w->adjoint.profile + e * b, v.profile + e * q);
    }
    replay_gather(s, 1, w->adjoint.scale, v.scale);
}

/* ---- the whole ---- */

dpmf_status replay_ask(const work_t *w) {
    return base_progress(w->run, "replayed seeds", -1);
}

dpmf_status replay_loss(work_t *w, const double *parameters, double *loss, double *gradient) {
    int definite = 0;
    *loss = INFINITY;
    replay_expand(parameters, &w->c);
    TRY(replay_filter_fill(&w->c, w->pool, &w->filter));
    TRY(replay_ask(w));
    replay_wanted(&w->c, &w->gram);
    TRY(replay_blocks(&w->c, &w->filter, 1, w->pool, &w->gram));
    TRY(replay_ask(w));
    TRY(replay_factor(&w->c, w->pool, &definite));
    TRY(replay_ask(w));
    if (!definite) return DPMF_OK;
    TRY(replay_error_fill(&w->c, w->pool, &w->error));
    TRY(replay_ask(w));
    const double value = replay_loss_of_errors(w);
    if (!isfinite(value)) return DPMF_OK;
    if (gradient != NULL) {
        replay_adjoint_clear(w);
        TRY(replay_error_adjoint(w));
        TRY(replay_ask(w));
        TRY(replay_class_adjoint(w, 0));
        TRY(replay_ask(w));
        TRY(replay_pairs_adjoint(w, 1));
        TRY(replay_ask(w));
        TRY(replay_filter_adjoint(w));
        TRY(replay_ask(w));
        parameters_adjoint(w, gradient);
    }
    *loss = value;
    return DPMF_OK;
}
