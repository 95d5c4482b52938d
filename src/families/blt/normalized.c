/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of a BLT whose columns are divided by their norms d_t (sensitivity 1 under single participation; Pillutla
 * et al. 2025, Remark 2.19), for prefix sums, and its derivatives. C^-1 = BLT(-a, mu) is a stream, then scaled by d:
 *
 *     y_t = z_t - a'x_t,   x_{t+1} = mu x_t + z_t,   o_t = o_{t-1} + d_t y_t,   total = sum_t p_t Var o_t.
 *
 * With P = Cov x (P_ij <- m P_ij + 1, m = mu_i mu_j), r = P a, q = Cov(x_t, o_{t-1}) and E_t = p_t + p_{t+1} + ...,
 *
 *     total = sum_t E_t (d_t^2 (1 + a'r) - 2 d_t a'q),     q <- mu q + d_t (1 - mu r).
 *
 * The derivatives by the adjoint of q, backwards in time, l_t = mu l_{t+1} - 2 E_t d_t a; those by P are gathered in a
 * last pass forwards, since P and its slope by m are cheaper made again than kept. O(n d^2) time, O(n d) memory.
 */
#include "families/blt/search.h"

#include "base/memory.h"
#include "base/sum.h"

#include <math.h>
#include <string.h>

enum { MAX = BLT_MAX };

void blt_normalized_free(blt_normalized *w) {
    base_free(w->memory);
    *w = (blt_normalized){0};
}

dpmf_status blt_normalized_open(int64_t n, blt_normalized *w) {
    double *memory = NULL;
    TRY(base_alloc_doubles(n * (4 + 2 * MAX), "the errors of a normalized BLT", &memory));
    *w = (blt_normalized){.memory = memory,
                          .coefficient = memory,
                          .norm = memory + n,
                          .variance = memory + 2 * n,
                          .by_norm = memory + 3 * n,
                          .q = memory + 4 * n,
                          .r = memory + (4 + MAX) * n};
    return DPMF_OK;
}

/* One evaluation. */
typedef struct pass {
    const blt_problem *p;
    const blt_normalized *w;
    const blt_pair *c;
    double mu[MAX], m[MAX * MAX];
} pass;

static double emphasis(const pass *s, int64_t t) {
    return s->p->emphasis != NULL ? s->p->emphasis[t] : (double)(s->p->n - t);
}

static void set_norms(const pass *s) {
    int64_t n = s->p->n;
    blt_parameters c = blt_make(s->p->count, s->c->alpha, s->c->g);
    base_running sum = {0};
    blt_coefficients(&c, n, s->w->coefficient);
    for (int64_t i = 0; i < n; i++) {
        base_running_add(&sum, s->w->coefficient[i] * s->w->coefficient[i]);
        s->w->norm[n - 1 - i] = sqrt(base_running_value(&sum));
    }
}

/* Keeps q, r and Var y of every step. */
static double forwards(const pass *s) {
    int d = s->p->count;
    double covariance[MAX * MAX] = {0}, q[MAX] = {0};
    base_running total = {0};
    for (int64_t t = 0; t < s->p->n; t++) {
        double norm = s->w->norm[t], aq = 0, variance = 1, *r = s->w->r + t * d;
        memcpy(s->w->q + t * d, q, (size_t)d * sizeof *q);
        for (int i = 0; i < d; i++) {
            r[i] = 0;
            for (int l = 0; l < d; l++)
                r[i] += covariance[i * d + l] * s->c->a[l];
            variance += s->c->a[i] * r[i];
            aq += s->c->a[i] * q[i];
        }
        s->w->variance[t] = variance;
        base_running_add(&total, emphasis(s, t) * norm * (norm * variance - 2 * aq));
        for (int i = 0; i < d; i++)
            q[i] = s->mu[i] * q[i] + norm * (1 - s->mu[i] * r[i]);
        for (int i = 0; i < d * d; i++)
            covariance[i] = s->m[i] * covariance[i] + 1;
    }
    return base_running_value(&total);
}

/* Leaves d_t mu l_{t+1} in the place of r_t. */
static void backwards(const pass *s, double *by_a, double *by_mu) {
    int d = s->p->count;
    double adjoint[MAX] = {0};
    for (int64_t t = s->p->n - 1; t >= 0; t--) {
        double norm = s->w->norm[t], weight = 2 * emphasis(s, t), *r = s->w->r + t * d;
        const double *q = s->w->q + t * d;
        double by_norm = weight * norm * s->w->variance[t];
        for (int i = 0; i < d; i++) {
            by_norm += adjoint[i] * (1 - s->mu[i] * r[i]) - weight * s->c->a[i] * q[i];
            by_a[i] += weight * norm * (norm * r[i] - q[i]);
            by_mu[i] += adjoint[i] * (q[i] - norm * r[i]);
            r[i] = norm * s->mu[i] * adjoint[i];
            adjoint[i] = s->mu[i] * adjoint[i] - weight * norm * s->c->a[i];
        }
        s->w->by_norm[t] = by_norm;
    }
}

static void through_covariance(const pass *s, double *by_a, double *by_mu) {
    int d = s->p->count;
    double covariance[MAX * MAX] = {0}, slope[MAX * MAX] = {0}, by_m[MAX * MAX] = {0};
    for (int64_t t = 0; t < s->p->n; t++) {
        double norm = s->w->norm[t], weight = emphasis(s, t) * norm * norm;
        const double *back = s->w->r + t * d;
        for (int i = 0; i < d; i++)
            for (int l = 0; l < d; l++) {
                int at = i * d + l;
                by_a[l] -= back[i] * covariance[at];
                by_m[at] += (weight * s->c->a[i] - back[i]) * s->c->a[l] * slope[at];
                slope[at] = s->m[at] * slope[at] + covariance[at];
                covariance[at] = s->m[at] * covariance[at] + 1;
            }
    }
    for (int i = 0; i < d; i++)
        for (int l = 0; l < d; l++)
            by_mu[i] += (by_m[i * d + l] + by_m[l * d + i]) * s->mu[l];
}

/* d_t^2 = c_0^2 + ... + c_{n-1-t}^2: coefficient i is in the norms of the steps up to n-1-i. */
static void through_norms(const pass *s, blt_slopes *out) {
    int d = s->p->count;
    int64_t n = s->p->n;
    double power[MAX], slope[MAX] = {0}; /* lambda^(i-1) and its derivative by the gap */
    double *behind = s->w->variance;     /* no longer needed: sums of by_norm/norm up to a step */
    for (int64_t t = 0; t < n; t++)
        behind[t] = (t > 0 ? behind[t - 1] : 0) + s->w->by_norm[t] / s->w->norm[t];
    for (int j = 0; j < d; j++)
        power[j] = 1;
    for (int64_t i = 1; i < n; i++) {
        double by_coefficient = s->w->coefficient[i] * behind[n - 1 - i];
        for (int j = 0; j < d; j++) {
            double keep = 1 - s->c->g[j];
            out->by_log_alpha[j] += by_coefficient * s->c->alpha[j] * power[j];
            out->by_g[j] += by_coefficient * s->c->alpha[j] * slope[j];
            slope[j] = keep * slope[j] - power[j];
            power[j] *= keep;
        }
    }
}

double blt_normalized_error(const blt_problem *p, const blt_pair *c, blt_slopes *out) {
    pass s = {.p = p, .w = p->normalized, .c = c};
    double by_a[MAX] = {0}, by_mu[MAX] = {0};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < p->count; i++)
        s.mu[i] = 1 - c->h[i];
    for (int i = 0; i < p->count; i++)
        for (int l = 0; l < p->count; l++)
            s.m[i * p->count + l] = s.mu[i] * s.mu[l];
    set_norms(&s);
    double total = forwards(&s);
    backwards(&s, by_a, by_mu);
    through_covariance(&s, by_a, by_mu);
    through_norms(&s, out);
    for (int i = 0; i < p->count; i++) {
        out->by_log_a[i] = by_a[i] * c->a[i];
        out->by_h[i] = -by_mu[i];
    }
    return total;
}
