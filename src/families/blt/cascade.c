/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A BLT with scales of any sign in coordinates that stay well conditioned where decays meet. The best scales are often
 * large there and nearly cancel (307, -601, 294 at gaps of 0.0566, 0.0548, 0.0530), and searches in scales creep. So C
 * is written in the orthogonal functions of its decays (Takenaka 1925), a cascade of all-pass sections:
 *
 *     C(z) = 1 + z sum_i x_i phi_i(z),   phi_i = u_i/(1 - lambda_i z) prod_{j<i} (z - lambda_j)/(1 - lambda_j z).
 *
 * u_i^2 = 1 - lambda_i^2 makes them orthonormal over all time; 1/n is added to it, for decays that are 1 over n steps.
 * As a recursion, with s_i the state of section i, (C w)_t = w_t + sum_i x_i u_i s_i, and then from v_0 = w_t
 *
 *     s_i' = lambda_i s_i + v_i,   v_{i+1} = (1 - lambda_i^2) s_i - lambda_i v_i = s_i - lambda_i s_i'.
 *
 * The gaps are written by spacings down from 1, ln g_{d-1} = -e^y, ln g_i = ln g_{i+1} - APART - e^y, so that decays
 * never meet quite: there would be no scales. These are the partial fractions,
 *
 *     alpha_i = sum_{k>=i} x_k r_ik,   r_ik = u_k q_ik prod_{j<k, j!=i} (1 - lambda_i lambda_j)/(lambda_i - lambda_j),
 *     q_ii = 1,   q_ik = (1 - lambda_i^2)/(lambda_i - lambda_k).
 */
#include "families/blt/search.h"

#include <math.h>
#include <string.h>

enum { MAX = BLT_MAX };
static const double APART = 0.01;                       /* of ln gaps: some 1e-6 of the loss */
static const double LEAST_GAP = 1e-6, START_GAP = 2e-6; /* times the steps: no decay is nearer to 1; no start is */

int blt_cascade_set(int count, int64_t n, const double *x, blt_cascade *out) {
    const double last = log(LEAST_GAP / (double)n);
    double q = 0;
    int inside = 1;
    out->count = count;
    for (int i = count - 1; i >= 0; i--) {
        out->rise[i] = exp(x[count + i]);
        q -= out->rise[i] + (i + 1 < count ? APART : 0);
        inside = inside && q > last;
        out->gap[i] = exp(q);
        out->keep[i] = -expm1(q);
        out->square[i] = out->gap[i] * (2 - out->gap[i]);
        out->unit[i] = sqrt(out->square[i] + 1 / (double)n);
        out->weight[i] = x[i] * out->unit[i];
    }
    return inside;
}

/* From derivatives by gaps to those by spacings: a wider one moves all gaps from it down. */
static void pull_gaps(const blt_cascade *k, const double *by_gap, double factor, double *gradient) {
    double below = 0;
    for (int i = 0; i < k->count; i++) {
        below += k->gap[i] * by_gap[i];
        gradient[k->count + i] -= factor * k->rise[i] * below;
    }
}

/* ---- recursions ---- */

void blt_cascade_run(const blt_cascade *k, int64_t n, const double *w, double *states, double *out) {
    const int d = k->count;
    double state[MAX] = {0};
    for (int64_t t = 0; t < n; t++) {
        double sum = w[t], u = w[t];
        for (int i = 0; i < d; i++) {
            const double old = state[i], next = k->keep[i] * old + u;
            states[t * d + i] = old;
            sum += k->weight[i] * old;
            u = k->square[i] * old - k->keep[i] * u;
            state[i] = next;
        }
        if (out != NULL) out[t] = sum;
    }
}

void blt_cascade_divide(const blt_cascade *k, int64_t n, int step, double *y) {
    const int d = k->count;
    double state[MAX] = {0};
    for (int64_t t = 0; t < n; t++, y += step) {
        double u = *y;
        for (int i = 0; i < d; i++)
            u -= k->weight[i] * state[i];
        *y = u;
        for (int i = 0; i < d; i++) {
            const double old = state[i];
            state[i] = k->keep[i] * old + u;
            u = k->square[i] * old - k->keep[i] * u;
        }
    }
}

void blt_cascade_pull(const blt_cascade *k, int64_t n, const double *states, const double *v, double factor,
                      double *gradient) {
    const int d = k->count;
    double behind[MAX] = {0}, by_keep[MAX] = {0}, by_weight[MAX] = {0}, by_gap[MAX];
    for (int64_t t = n - 1; t >= 0; t--) {
        const double *s = states + t * d;
        double by_u = 0;
        for (int i = d - 1; i >= 0; i--) {
            const double next = t + 1 < n ? s[d + i] : 0, by_next = behind[i] - k->keep[i] * by_u;
            by_keep[i] += by_next * s[i] - by_u * next;
            by_weight[i] += v[t] * s[i];
            behind[i] = by_u + k->keep[i] * by_next + v[t] * k->weight[i];
            by_u = by_next;
        }
    }
    for (int i = 0; i < d; i++) {
        gradient[i] += factor * k->unit[i] * by_weight[i];
        by_gap[i] = k->weight[i] * by_weight[i] * k->keep[i] / (k->unit[i] * k->unit[i]) - by_keep[i];
    }
    pull_gaps(k, by_gap, factor, gradient);
}

/* ---- scales ---- */

/* The coefficient of x_k in alpha_i, i <= k. */
static double residue(const blt_cascade *c, int i, int k) {
    const double *g = c->gap;
    double r = c->unit[k];
    for (int j = 0; j < k; j++)
        if (j != i) r *= (g[i] + g[j] - g[i] * g[j]) / (g[j] - g[i]);
    return k == i ? r : r * c->square[i] / (g[k] - g[i]);
}

/* Adds `weight` times the derivatives of ln|residue| by the gaps. */
static void add_residue_slopes(const blt_cascade *c, int i, int k, double weight, double *by_gap) {
    const double *g = c->gap;
    by_gap[k] += weight * c->keep[k] / (c->unit[k] * c->unit[k]);
    for (int j = 0; j < k; j++) {
        if (j == i) continue;
        const double sum = g[i] + g[j] - g[i] * g[j], difference = g[j] - g[i];
        by_gap[i] += weight * (c->keep[j] / sum + 1 / difference);
        by_gap[j] += weight * (c->keep[i] / sum - 1 / difference);
    }
    if (k == i) return;
    by_gap[i] += weight * (2 * c->keep[i] / c->square[i] + 1 / (g[k] - g[i]));
    by_gap[k] -= weight / (g[k] - g[i]);
}

double blt_cascade_size(const blt_cascade *c, const double *x, double factor, double *gradient) {
    double r[MAX][MAX], by_gap[MAX] = {0}, sum = 0;
    for (int i = 0; i < c->count; i++) {
        double scale = 0;
        for (int k = i; k < c->count; k++) {
            r[i][k] = residue(c, i, k);
            scale += x[k] * r[i][k];
        }
        sum += scale * scale;
        for (int k = i; k < c->count; k++) {
            gradient[k] += 2 * factor * scale * r[i][k];
            add_residue_slopes(c, i, k, 2 * scale * x[k] * r[i][k], by_gap);
        }
    }
    pull_gaps(c, by_gap, factor, gradient);
    return factor * sum;
}

blt_parameters blt_cascade_at(int count, int64_t n, const double *x) {
    blt_cascade c;
    double scale[MAX] = {0};
    (void)blt_cascade_set(count, n, x, &c);
    for (int i = 0; i < count; i++)
        for (int k = i; k < count; k++)
            scale[i] += x[k] * residue(&c, i, k);
    return blt_make(count, scale, c.gap);
}

/* Gaps that are not apart are moved. */
void blt_cascade_unknowns(int count, int64_t n, const double *scale, const double *gap, double *x) {
    blt_cascade c;
    double q = APART; /* the first has no neighbour above */
    for (int i = count - 1; i >= 0; i--) {
        const double spacing = q - APART - log(fmax(gap[i], START_GAP / (double)n));
        x[i] = 0;
        x[count + i] = log(fmax(spacing, 1e-3 * APART));
        q -= APART + exp(x[count + i]);
    }
    (void)blt_cascade_set(count, n, x, &c);
    for (int i = count - 1; i >= 0; i--) {
        double left = scale[i];
        for (int k = i + 1; k < count; k++)
            left -= x[k] * residue(&c, i, k);
        x[i] = left / residue(&c, i, i);
    }
}
