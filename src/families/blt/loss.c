/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ln(loss) of a BLT and its gradient. The unknowns stand for the gaps of C and of C^-1 together, p = (g_0, h_0, g_1,
 * h_1, ..., g_{d-1}, h_{d-1}), which interlace (Pillutla et al. 2025, Lemma 4.14). Up to g_{d-1} < 1 their logarithms q
 * are written by spacings, down from 0; the last follows from the sum of the scales, sum alpha = sum (h_i - g_i):
 *
 *     q_a = q_{a+1} - s_a,   s = least + ln(1 + e^x),   a < 2d-1,   q_{2d-1} standing for ln 1
 *     h_{d-1} = g_{d-1} + (1 - sum_{i<d-1} (h_i - g_i)) / (1 + e^-x).
 *
 * Every x in R^2d is then a BLT with 0 <= decay < 1 and positive scales whose sum is at most 1: c >= 0 and falling, which makes
 * the sensitivity exact, and h_{d-1} may pass 1, where some optima lie. But under several participations the infimum is often
 * at a decay of 1 or 0 or a scale of 0, which x only approaches as it runs away. The logarithmic barrier of Section 4.3.2,
 *
 *     -mu sum_i (ln lambda_i + ln g_i + ln alpha_i),
 *
 * keeps a minimum inside: at a decay of 1 the gap is then about mu/n, for about mu of ln loss. Differences of gaps are sums of
 * spacings, never subtractions: p_b - p_a = p_b (1 - e^-(q_b - q_a)). The scales follow from them (Lemma 4.13),
 *
 *     alpha_i = prod_j |h_j - g_i| / prod_{j != i} |g_j - g_i|,
 *     beta_j = prod_i |h_j - g_i| / prod_{i != j} |h_i - h_j| / h_j,   beta_0 = prod g/h    (families/blt/algebra.c),
 *
 * and the loss from the closed forms of families/blt/algebra.c: O(d^2 k + d^3) for any n. For another Toeplitz workload, or
 * with weights, the first column w of B = A C^-1 is run through instead, O(n d): C^-1 is a product of first-order sections
 * (1 - lambda_i x)/(1 - mu_i x), and the derivatives of w are w itself through one more pole,
 *
 *     dw/dg_i = x/(1 - lambda_i x) w,   dw/dh_j = -x/(1 - mu_j x) w.
 *
 * For a matrix that is not Toeplitz the error is a quadratic form in the first column of C^-1 (families/toeplitz/error.c), O(n^2).
 */
#include "families/blt/blt.h"

#include "base/memory.h"
#include "base/sum.h"
#include "families/toeplitz/toeplitz.h"

#include <math.h>
#include <string.h>

static int error_is_closed(const blt_problem *p) {
    return p->response == NULL && p->emphasis == NULL && p->normalized == NULL && p->form == NULL;
}

int blt_is_closed(const blt_problem *p) {
    return error_is_closed(p) && p->listed == NULL;
}

enum { MAX = BLT_MAX, POINTS = BLT_UNKNOWNS };

/* The interlaced gaps: even places are those of C, odd places those of C^-1. */
typedef struct chain {
    int count, points;
    double spacing[POINTS], rise[POINTS], q[POINTS], p[POINTS]; /* rise: with x */
    double room, share;                                         /* the last h - g is their product */
    double apart[POINTS][POINTS];                               /* q_b - q_a for a < b */
    double alpha[MAX], beta[MAX + 1];                           /* beta[0] is the constant, beta[1 + j] goes with h_j */
} chain;

static double log_distance(const chain *c, int a, int b) {
    return a < b ? c->q[b] + log(-expm1(-c->apart[a][b])) : c->q[a] + log(-expm1(-c->apart[b][a]));
}

/* Some optima have two equal gaps. The bound keeps their difference in the range of a double, for 1e-12 of the loss. */
static const double LEAST = 1e-13;

/* The last difference h - g, and what it depends on. */
static void set_last(double x, chain *c) {
    int last = c->points - 1;
    c->room = 1;
    for (int a = 0; a + 1 < last; a += 2)
        c->room -= c->p[a] * expm1(c->spacing[a]);
    c->share = LEAST + (1 - 2 * LEAST) / (1 + exp(-x));
    c->rise[last] = (1 - 2 * LEAST) / ((1 + exp(-x)) * (1 + exp(x)));
    c->spacing[last - 1] = log1p(c->room * c->share / c->p[last - 1]);
    c->q[last] = c->q[last - 1] + c->spacing[last - 1];
    c->p[last] = exp(c->q[last]);
}

static void set_chain(int count, const double *x, chain *c) {
    double q = 0;
    c->count = count;
    c->points = 2 * count;
    for (int a = c->points - 2; a >= 0; a--) {
        c->spacing[a] = LEAST + (x[a] > 0 ? x[a] + log1p(exp(-x[a])) : log1p(exp(x[a])));
        c->rise[a] = 1 / (1 + exp(-x[a]));
        c->q[a] = q -= c->spacing[a];
        c->p[a] = exp(q);
    }
    set_last(x[c->points - 1], c);
    for (int a = c->points - 1; a >= 0; a--) {
        c->apart[a][a] = 0;
        for (int b = a + 1; b < c->points; b++)
            c->apart[a][b] = c->spacing[a] + c->apart[a + 1][b];
    }
    double constant = 0;
    for (int i = 0; i < c->count; i++) {
        double alpha = 0, beta = -c->q[2 * i + 1];
        for (int j = 0; j < c->count; j++) {
            alpha += log_distance(c, 2 * i, 2 * j + 1);
            beta += log_distance(c, 2 * i + 1, 2 * j);
            if (j == i) continue;
            alpha -= log_distance(c, 2 * i, 2 * j);
            beta -= log_distance(c, 2 * i + 1, 2 * j + 1);
        }
        c->alpha[i] = exp(alpha);
        c->beta[1 + i] = exp(beta);
        constant += c->q[2 * i] - c->q[2 * i + 1];
    }
    c->beta[0] = exp(constant);
}

/* Derivatives of f with respect to q (at), and to differences of q that span the places a to before b. */
typedef struct slopes {
    double at[POINTS], span[POINTS + 1];
} slopes;

/* f has `weight` x ln|p_a - p_b|. */
static void add_distance(const chain *c, double weight, int a, int b, slopes *s) {
    int low = a < b ? a : b, high = a < b ? b : a;
    double rise = weight / expm1(c->apart[low][high]);
    s->at[high] += weight;
    s->span[low] += rise;
    s->span[high] -= rise;
}

static void add_log_beta(const chain *c, double weight, int j, slopes *s) {
    s->at[2 * j + 1] -= weight;
    for (int i = 0; i < c->count; i++) {
        add_distance(c, weight, 2 * j + 1, 2 * i, s);
        if (i != j) add_distance(c, -weight, 2 * j + 1, 2 * i + 1, s);
    }
}

/*
 * From derivatives by q and by spacings to those by x. With v = room share = h - g of the last pair, whose spacing is
 * ln(1 + v/g): its change is (dv - v dq)/h, and dv = share d(room) + room d(share).
 */
static void finish_gradient(const chain *c, slopes *s, double *gradient) {
    int last = c->points - 1;
    double below = 0, span = 0, v = c->room * c->share;
    for (int a = 0; a < last; a++)
        span += s->span[a];
    double by_spacing = (span + s->at[last]) / c->p[last];
    for (int a = 0; a + 1 < last; a++)
        s->at[a] += by_spacing * c->share * (a % 2 == 0 ? c->p[a] : -c->p[a]);
    gradient[last] = by_spacing * c->room * c->rise[last];
    span = 0;
    for (int a = 0; a < last; a++) {
        below += s->at[a]; /* a wider spacing moves every place up to a down */
        span += s->span[a];
        gradient[a] = c->rise[a] * (span - below);
    }
    /* the spacing below 1 moves all of them */
    gradient[last - 1] = -c->rise[last - 1] * (below + s->at[last] - by_spacing * v);
}

typedef struct part {
    double value, by_log[MAX + 1], by_gap[MAX + 1]; /* with respect to logarithms of scales, and to gaps */
} part;

/* The scales so far: families/blt/algebra.c defines `past`. */
typedef struct running_scales {
    double keep[MAX], rate[MAX], ratio[MAX]; /* lambda, its logarithm, and its b-th power */
    double power[MAX], past[MAX], past_slope[MAX], weight[MAX], weight_slope[MAX], first;
} running_scales;

enum { ANCHOR = 64 }; /* powers by repeated products for this number of participations, then from the logarithm again */

/* Participation j at step j b. Gives how much it changed, the most of all buffers. */
static double next_participation(const chain *c, int64_t j, int64_t b, running_scales *r) {
    double m = (double)(j * b - 1), change = 0; /* `past` gains lambda^m */
    r->first = 1;
    for (int i = 0; i < c->count; i++) {
        double keep = r->keep[i];
        if (j > 0) {
            double power = m == 0 ? 1 : j % ANCHOR == 1 ? exp(m * r->rate[i]) : r->power[i] * r->ratio[i];
            r->power[i] = power;
            r->past[i] += power;
            r->past_slope[i] -= m == 0 ? 0 : m * power / keep;
            change = fmax(change, (1 + m) * power / keep);
        }
        r->weight[i] = c->alpha[i] * (1 + keep * r->past[i]);
        r->weight_slope[i] = c->alpha[i] * (keep * r->past_slope[i] - r->past[i]);
        r->first += c->alpha[i] * r->past[i];
    }
    return j > 0 ? change : INFINITY;
}

/* Sums for pairs of places first, first + 2, ... of the chain; slopes by the gap 1 - (1-g)(1-h) of both together. */
static void pair_sums(const chain *c, int first, double n, blt_slope (*sum)(double, double), blt_slope *out) {
    int d = c->count;
    for (int i = 0; i < d; i++)
        for (int l = 0; l <= i; l++) {
            double g = c->p[2 * i + first], h = c->p[2 * l + first];
            out[i * d + l] = out[l * d + i] = sum(n, g + (1 - g) * h);
        }
}

/* What a participation adds to sums that are at least 1: the rest together is then below rounding. */
static const double SETTLED = 1e-20;

static void sensitivity(const blt_problem *p, const chain *c, part *out) {
    blt_slope inner[MAX * MAX];
    running_scales r;
    const int64_t b = p->b;
    memset(&r, 0, sizeof r);
    for (int i = 0; i < c->count; i++) {
        r.keep[i] = -expm1(c->q[2 * i]);
        r.rate[i] = log1p(-c->p[2 * i]);
        r.ratio[i] = exp((double)b * r.rate[i]);
    }
    memset(out, 0, sizeof *out);
    for (int64_t j = 0; j < p->k; j++) {
        double times = 1, change = next_participation(c, j, p->b, &r);
        int64_t length = j + 1 < p->k ? p->b : p->n - (p->k - 1) * p->b;
        if (j == 0 || j + 1 == p->k) pair_sums(c, 0, (double)(length - 1), blt_geometric, inner);
        if (change < SETTLED && j + 1 < p->k) { /* all that follow but the last are like this one */
            times = (double)(p->k - 1 - j);
            j = p->k - 2;
            memset(r.power, 0, sizeof r.power);
        }
        int d = c->count;
        out->value += times * r.first * r.first;
        for (int i = 0; i < d; i++) {
            double row = 0, row_slope = 0;
            for (int l = 0; l < d; l++) {
                row += r.weight[l] * inner[i * d + l].value;
                row_slope += r.weight[l] * r.keep[l] * inner[i * d + l].slope;
            }
            out->value += times * r.weight[i] * row;
            out->by_log[i] += 2 * times * (r.first * c->alpha[i] * r.past[i] + r.weight[i] * row);
            out->by_gap[i] +=
                2 * times *
                (r.first * c->alpha[i] * r.past_slope[i] + r.weight_slope[i] * row + r.weight[i] * row_slope);
        }
    }
}

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

/* |B|_F^2 with normalized columns, rows weighted as the problem says, and its derivatives. */
static double blt_normalized_error(const blt_problem *p, const blt_pair *c, blt_slopes *out) {
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
    /* Leaves d_t mu l_{t+1} in the place of r_t. */
    int d = s.p->count;
    double adjoint[MAX] = {0};
    for (int64_t t = s.p->n - 1; t >= 0; t--) {
        double norm = s.w->norm[t], weight = 2 * emphasis(&s, t), *r = s.w->r + t * d;
        const double *q = s.w->q + t * d;
        double by_norm = weight * norm * s.w->variance[t];
        for (int i = 0; i < d; i++) {
            by_norm += adjoint[i] * (1 - s.mu[i] * r[i]) - weight * s.c->a[i] * q[i];
            by_a[i] += weight * norm * (norm * r[i] - q[i]);
            by_mu[i] += adjoint[i] * (q[i] - norm * r[i]);
            r[i] = norm * s.mu[i] * adjoint[i];
            adjoint[i] = s.mu[i] * adjoint[i] - weight * norm * s.c->a[i];
        }
        s.w->by_norm[t] = by_norm;
    }
    through_covariance(&s, by_a, by_mu);
    through_norms(&s, out);
    for (int i = 0; i < p->count; i++) {
        out->by_log_a[i] = by_a[i] * c->a[i];
        out->by_h[i] = -by_mu[i];
    }
    return total;
}

static void closed_error(const blt_problem *p, const chain *c, part *out) {
    blt_slope (*sum)(double, double) = p->max_loss ? blt_geometric : blt_geometric_ramp;
    blt_slope inner[MAX * MAX];
    int d = c->count;
    double n = (double)p->n, constant = c->beta[0] * sum(n, 0).value;
    pair_sums(c, 1, n, sum, inner);
    memset(out, 0, sizeof *out);
    for (int j = 0; j < d; j++) {
        blt_slope alone = sum(n, c->p[2 * j + 1]);
        double beta = c->beta[1 + j], row = c->beta[0] * alone.value, row_slope = c->beta[0] * alone.slope;
        constant += beta * alone.value;
        for (int l = 0; l < d; l++) {
            row += c->beta[1 + l] * inner[j * d + l].value;
            row_slope += c->beta[1 + l] * (1 - c->p[2 * l + 1]) * inner[j * d + l].slope;
        }
        out->value += beta * row;
        out->by_log[1 + j] = 2 * beta * row;
        out->by_gap[1 + j] = 2 * beta * row_slope;
    }
    out->value += c->beta[0] * constant;
    out->by_log[0] = 2 * c->beta[0] * constant;
}

/* The sections of C^-1 one after the other on the next input. */
static double pass_sections(const chain *c, const double *gain, double w, double *state) {
    for (int i = 0; i < c->count; i++) {
        double in = w;
        w -= gain[i] * state[i];
        state[i] = (state[i] - c->p[2 * i + 1] * state[i]) + in;
    }
    return w;
}

/* The first column h of C^-1, and the form's product with it: each h_t then counts with (form h)_t in place of its own. */
static void apply_form(const blt_problem *p, const chain *c, const double *gain) {
    double state[MAX] = {0};
    for (int64_t t = 0; t < p->n; t++)
        p->work[t] = pass_sections(c, gain, t == 0, state);
    toeplitz_form_apply(p->n, p->form, p->work, p->work + p->n);
}

/* The error's derivatives with respect to all gaps, in the order of the chain. */
static double response_error(const blt_problem *p, const chain *c, double *by_gap) {
    double state[MAX] = {0}, gain[MAX], moved[POINTS] = {0};
    base_running total = {0};
    memset(by_gap, 0, (size_t)c->points * sizeof *by_gap);
    for (int i = 0; i < c->count; i++)
        gain[i] = c->p[2 * i] * expm1(c->spacing[2 * i]);
    if (p->form != NULL) apply_form(p, c, gain);
    for (int64_t t = 0; t < p->n; t++) {
        double input = p->form != NULL ? t == 0 : p->response == NULL ? 1 : p->response[t];
        double emphasis = p->emphasis != NULL ? p->emphasis[t] : p->max_loss ? 1 : (double)(p->n - t);
        double w = pass_sections(c, gain, input, state);
        double weighted = p->form != NULL ? p->work[p->n + t] : emphasis * w;
        base_running_add(&total, weighted * w);
        for (int a = 0; a < c->points; a++) {
            by_gap[a] += weighted * moved[a];
            moved[a] = (moved[a] - c->p[a] * moved[a]) + w;
        }
    }
    for (int a = 0; a < c->points; a++)
        by_gap[a] *= a % 2 == 0 ? 2 : -2;
    return base_running_value(&total);
}

/* Normalized: everything is in the error; a = beta h. */
static void normalized_error(const blt_problem *p, const chain *c, part *s, part *e) {
    blt_pair pair;
    blt_slopes by;
    memset(s, 0, sizeof *s);
    memset(e, 0, sizeof *e);
    for (int i = 0; i < c->count; i++) {
        pair.alpha[i] = c->alpha[i];
        pair.g[i] = c->p[2 * i];
        pair.h[i] = c->p[2 * i + 1];
        pair.a[i] = c->beta[1 + i] * pair.h[i];
    }
    s->value = 1;
    e->value = blt_normalized_error(p, &pair, &by);
    for (int i = 0; i < c->count; i++) {
        s->by_log[i] = by.by_log_alpha[i] / e->value;
        s->by_gap[i] = by.by_g[i] / e->value;
        e->by_log[1 + i] = by.by_log_a[i];
        e->by_gap[1 + i] = by.by_h[i] + by.by_log_a[i] / pair.h[i];
    }
}

/* Of patterns from a file (families/toeplitz/listed.c): through the coefficients c_i = sum_j alpha_j lambda_j^(i-1). */
static dpmf_status listed_sensitivity(const blt_problem *p, const chain *c, part *out) {
    double gap[MAX], power[MAX], slope[MAX] = {0}, *by_c = p->listed->by_c;
    memset(out, 0, sizeof *out);
    for (int j = 0; j < c->count; j++) {
        gap[j] = c->p[2 * j];
        power[j] = 1;
    }
    const blt_parameters at = blt_make(c->count, c->alpha, gap);
    blt_coefficients(&at, p->n, p->listed->c);
    TRY(toeplitz_listed_square(p->listed, p->n, p->listed->c, &out->value, by_c));
    for (int64_t i = 1; i < p->n; i++)
        for (int j = 0; j < c->count; j++) {
            const double keep = 1 - gap[j];
            out->by_log[j] += by_c[i] * c->alpha[j] * power[j];
            out->by_gap[j] += by_c[i] * c->alpha[j] * slope[j];
            slope[j] = keep * slope[j] - power[j];
            power[j] *= keep;
        }
    return DPMF_OK;
}

dpmf_status blt_loss(void *problem, const double *x, double *f, double *gradient) {
    const blt_problem *p = problem;
    chain c;
    part s, e = {0};
    slopes to = {0};
    double by_gap[POINTS], barrier = 0;
    set_chain(p->count, x, &c);
    if (p->normalized == NULL && p->listed == NULL) sensitivity(p, &c, &s);
    if (p->listed != NULL) TRY(listed_sensitivity(p, &c, &s));
    if (p->normalized != NULL) {
        normalized_error(p, &c, &s, &e);
    } else if (error_is_closed(p)) {
        closed_error(p, &c, &e);
    } else {
        e.value = response_error(p, &c, by_gap);
        for (int a = 0; a < c.points; a++)
            to.at[a] += by_gap[a] * c.p[a] / (2 * e.value);
    }
    for (int i = 0; i < p->count; i++) {
        const double weight = s.by_log[i] / (2 * s.value) - p->barrier, gap = c.p[2 * i];
        barrier -= log(c.alpha[i]) + c.q[2 * i] + log1p(-gap);
        to.at[2 * i] += p->barrier * (gap / (1 - gap) - 1);
        for (int j = 0; j < c.count; j++) {
            add_distance(&c, weight, 2 * i, 2 * j + 1, &to);
            if (j != i) add_distance(&c, -weight, 2 * i, 2 * j, &to);
        }
        add_log_beta(&c, e.by_log[1 + i] / (2 * e.value), i, &to);
        to.at[2 * i] += s.by_gap[i] * c.p[2 * i] / (2 * s.value) + e.by_log[0] / (2 * e.value);
        to.at[2 * i + 1] += e.by_gap[1 + i] * c.p[2 * i + 1] / (2 * e.value) - e.by_log[0] / (2 * e.value);
    }
    *f = (log(s.value) + log(e.value) - (p->max_loss ? 0 : log((double)p->n))) / 2 + p->barrier * barrier;
    finish_gradient(&c, &to, gradient);
    for (int a = 0; a < c.points; a++)
        if (!isfinite(gradient[a])) *f = INFINITY;
    return DPMF_OK;
}

blt_parameters blt_at(int count, const double *x) {
    chain c;
    double gap[MAX];
    set_chain(count, x, &c);
    for (int i = 0; i < count; i++)
        gap[i] = c.p[2 * i];
    return blt_make(count, c.alpha, gap);
}

static double spacing_unknown(double spacing) {
    double above = fmax(spacing - LEAST, LEAST);
    return above + log(-expm1(-above));
}

static double share_unknown(double share) {
    double bounded = fmin(fmax(share, 1e-9), 1 - 1e-6);
    return log(bounded / (1 - bounded));
}

void blt_unknowns(int count, const double *gaps, double *x) {
    int last = 2 * count - 1;
    double room = 1;
    for (int a = 0; a < last; a++)
        x[a] = spacing_unknown(log((a + 1 < last ? gaps[a + 1] : 1) / gaps[a]));
    for (int a = 0; a + 1 < last; a += 2)
        room -= gaps[a + 1] - gaps[a];
    x[last] = share_unknown((gaps[last] - gaps[last - 1]) / room);
}

void blt_gaps(int count, const double *x, double *gaps) {
    chain c;
    set_chain(count, x, &c);
    memcpy(gaps, c.p, (size_t)c.points * sizeof *gaps);
}
