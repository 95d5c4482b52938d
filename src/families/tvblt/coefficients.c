/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coefficients of a TV-BLT as a linear system and its inverse (families/tvblt/tvblt.h). With h = 1 for the first number of
 * each node, 0 for the second,
 *
 *     y_t = l_t z_t + h'x_t,             x_{t+1} = F_t x_t + g_t z_t                        the noise C^-1 z
 *     z_t = (y_t - h'x_t) / l_t,         x_{t+1} = F^c_t x_t + xi_t y_t                     its inverse, C y
 *     xi_t = g_t / l_t,                  F^c_t = F_t - xi_t h'
 *
 * Columns of C are impulse responses of the second system; their inner products follow from its observability Gramian,
 * backwards in time from G_n = 0:
 *
 *     |C e_t|^2 = 1/l_t^2 + xi_t'G_{t+1} xi_t,    G_t = h h'/l_t^2 + F^c_t'G_{t+1} F^c_t
 *     (C'C)[t,u] = q_u' F^c_{u-1} ... F^c_{t+1} xi_t  (u > t),    q_u = F^c_u'G_{u+1} xi_u - h/l_u^2
 *
 * O(n R^2) for all norms, and for one diagonal u = t + lag too: between two multiples of lag every such product is cut
 * at the same place, so each half is a running product that grows by one factor per step.
 */
#include "families/tvblt/tvblt.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { STATES_MAX = TVBLT_STATES_MAX };

void tvblt_free(tvblt_parameters *c) {
    base_free(c->diagonal);
    base_free(c->keep);
    base_free(c->gain);
    *c = (tvblt_parameters){0};
}

dpmf_status tvblt_alloc(int64_t steps, int nodes, int order, tvblt_parameters *out) {
    tvblt_parameters c = {.steps = steps, .nodes = nodes, .order = order};
    int states = nodes * order;
    dpmf_status status = DPMF_OK;
    assert(steps >= 1 && nodes >= 1 && nodes <= TVBLT_NODES_MAX && (order == 1 || order == 2));
    if (steps > INT64_MAX / states)
        return base_fail(DPMF_ERROR_MEMORY, "tvblt: %lld steps x %d buffers are beyond any memory", (long long)steps,
                         states);
    TRY_DONE(base_alloc_doubles(steps, "the diagonal of C^-1", &c.diagonal));
    TRY_DONE(base_alloc_doubles(steps * states, "the coefficients of the buffers", &c.keep));
    TRY_DONE(base_alloc_doubles(steps * states, "the gains of the buffers", &c.gain));
    *out = c;
    c = (tvblt_parameters){0};
done:
    tvblt_free(&c);
    return status;
}

void tvblt_advance(const tvblt_parameters *c, int64_t t, double z, double *x) {
    int states = tvblt_states(c);
    const double *gain = c->gain + t * states;
    tvblt_push(c, t, x);
    for (int j = 0; j < states; j++)
        x[j] += gain[j] * z;
}

void tvblt_push(const tvblt_parameters *c, int64_t t, double *x) {
    int r = c->nodes;
    const double *keep = c->keep + t * tvblt_states(c);
    for (int j = 0; j < r; j++)
        if (c->order == 1) {
            x[j] *= keep[j];
        } else {
            double change = keep[j] * x[j] + keep[r + j] * x[r + j];
            x[j] += change;
            x[r + j] = change;
        }
}

void tvblt_push_covariance(const tvblt_parameters *c, int64_t t, double *m) {
    int states = tvblt_states(c), r = c->nodes;
    const double *keep = c->keep + t * states, *gain = c->gain + t * states;
    if (c->order == 1) {
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                m[i * r + j] = keep[i] * keep[j] * m[i * r + j] + gain[i] * gain[j];
        return;
    }
    for (int i = 0; i < r; i++) {
        double *row = m + i * states, *second = m + (r + i) * states;
        for (int j = 0; j < states; j++) {
            double change = keep[i] * row[j] + keep[r + i] * second[j];
            row[j] += change;
            second[j] = change;
        }
    }
    for (int i = 0; i < states; i++) {
        tvblt_push(c, t, m + i * states);
        for (int j = 0; j < states; j++)
            m[i * states + j] += gain[i] * gain[j];
    }
}

void tvblt_seen(const tvblt_parameters *c, const double *m, double *seen) {
    int states = tvblt_states(c);
    memset(seen, 0, (size_t)states * sizeof *seen);
    for (int i = 0; i < c->nodes; i++)
        for (int j = 0; j < states; j++)
            seen[j] += m[i * states + j];
}

/* x <- F'x. */
static void pull_back(const tvblt_parameters *c, const double *keep, double *x) {
    int r = c->nodes;
    for (int j = 0; j < r; j++)
        if (c->order == 1) {
            x[j] *= keep[j];
        } else {
            double both = x[j] + x[r + j];
            x[j] += keep[j] * both;
            x[r + j] = keep[r + j] * both;
        }
}

/* M <- F'M F: rows, then columns. */
static void pull_back_both(const tvblt_parameters *c, const double *keep, double *m) {
    int states = tvblt_states(c), r = c->nodes;
    if (c->order == 1) {
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                m[i * r + j] *= keep[i] * keep[j];
        return;
    }
    for (int i = 0; i < r; i++) {
        double *row = m + i * states, *second = m + (r + i) * states;
        for (int j = 0; j < states; j++) {
            double both = row[j] + second[j];
            row[j] += keep[i] * both;
            second[j] = keep[r + i] * both;
        }
    }
    for (int i = 0; i < states; i++)
        pull_back(c, keep, m + i * states);
}

/*
 * From G_{t+1} to G_t in place. Gives |C e_t|^2, and q_t if `q` is not NULL. F^c'G F^c is expanded as
 * F'G F - (F'G xi) h' - h (F'G xi)' + (xi'G xi) h h', which costs three products of R^2.
 */
static double gramian_step(const tvblt_parameters *c, int64_t t, double *g, double *q) {
    int states = tvblt_states(c), r = c->nodes;
    const double *keep = c->keep + t * states, *gain = c->gain + t * states;
    double seed = 1 / c->diagonal[t], pulled[STATES_MAX], square = 0;
    /* y = M x for a symmetric M, by whole rows: unlike a sum of products, such a loop runs in vector units. */
    memset(pulled, 0, (size_t)states * sizeof *pulled);
    for (int i = 0; i < states; i++)
        for (int j = 0; j < states; j++)
            pulled[j] += g[i * states + j] * gain[i];
    for (int i = 0; i < states; i++) {
        pulled[i] *= seed;
        square += pulled[i] * gain[i] * seed;
    }
    double norm = square + seed * seed;
    pull_back(c, keep, pulled);
    pull_back_both(c, keep, g);
    for (int i = 0; i < states; i++) {
        double *row = g + i * states, here = pulled[i];
        for (int j = 0; j < r && i < r; j++)
            row[j] += norm - (here + pulled[j]);
        for (int j = r; j < states && i < r; j++)
            row[j] -= pulled[j];
        for (int j = 0; j < r && i >= r; j++)
            row[j] -= here;
    }
    for (int i = 0; q != NULL && i < states; i++)
        q[i] = pulled[i] - (i < r ? norm : 0);
    return norm;
}

int64_t tvblt_square_norms(const tvblt_parameters *c, double *squares) {
    double g[STATES_MAX * STATES_MAX] = {0};
    for (int64_t t = c->steps - 1; t >= 0; t--) {
        squares[t] = gramian_step(c, t, g, NULL);
        if (!(squares[t] > 0 && isfinite(squares[t]))) return t;
    }
    return -1;
}

/* x <- F^c x, the inverse system without input. */
static void feed_back(const tvblt_parameters *c, int64_t t, double *x) {
    tvblt_advance(c, t, -tvblt_output(c, x) / c->diagonal[t], x);
}

static void make_identity(int states, double *m) {
    memset(m, 0, (size_t)(states * states) * sizeof *m);
    for (int i = 0; i < states; i++)
        m[i * states + i] = 1;
}

/* right[i] = F^c_{cut-1} ... F^c_{t+1} xi_t at t = first + i, for t < cut and i < count. */
static void right_halves(const tvblt_parameters *c, int64_t first, int64_t cut, int64_t count, double *right) {
    int states = tvblt_states(c);
    double product[STATES_MAX * STATES_MAX];
    make_identity(states, product);
    for (int64_t t = cut - 1; t >= first; t--) {
        const double *keep = c->keep + t * states, *gain = c->gain + t * states;
        for (int i = 0; i < states; i++) {
            double *row = product + i * states;
            double sum = base_dot(states, row, gain) / c->diagonal[t];
            if (t - first < count) right[(t - first) * states + i] = sum;
            pull_back(c, keep, row); /* row <- row F - (row xi) h' */
            for (int j = 0; j < c->nodes; j++)
                row[j] -= sum;
        }
    }
}

/* The diagonal `lag` >= 1 from the vectors q_u of all steps. */
static void gram_diagonal(const tvblt_parameters *c, int64_t lag, const double *q, double *right, double *values) {
    int states = tvblt_states(c);
    for (int64_t first = 0; first + lag < c->steps; first += lag) {
        int64_t cut = first + lag, last = cut + lag < c->steps ? cut + lag : c->steps;
        double left[STATES_MAX * STATES_MAX]; /* transposed: row i is F^c_{u-1} ... F^c_cut e_i */
        right_halves(c, first, cut, last - cut, right);
        make_identity(states, left);
        for (int64_t u = cut; u < last; u++) {
            double sum = 0;
            for (int i = 0; i < states; i++) {
                sum += base_dot(states, left + i * states, q + u * states) * right[(u - cut) * states + i];
                feed_back(c, u, left + i * states);
            }
            values[u - lag] = sum;
        }
    }
}

void tvblt_gram_vectors(const tvblt_parameters *c, double *q) {
    double g[STATES_MAX * STATES_MAX] = {0};
    for (int64_t t = c->steps - 1; t >= 0; t--)
        (void)gramian_step(c, t, g, q + t * tvblt_states(c));
}

void tvblt_gram_row(const tvblt_parameters *c, const double *q, int64_t t, int64_t count, double *values) {
    int states = tvblt_states(c);
    double x[STATES_MAX];
    assert(t >= 0 && t + count < c->steps);
    for (int i = 0; i < states; i++)
        x[i] = c->gain[t * states + i] / c->diagonal[t];
    for (int64_t u = t + 1; u <= t + count; u++) {
        values[u - t - 1] = base_dot(states, x, q + u * states);
        feed_back(c, u, x);
    }
}

dpmf_status tvblt_gram(const tvblt_parameters *c, int64_t lag, double *values) {
    int states = tvblt_states(c);
    double *q = NULL, *right = NULL, g[STATES_MAX * STATES_MAX] = {0};
    dpmf_status status = DPMF_OK;
    if (lag == 0) {
        for (int64_t t = c->steps - 1; t >= 0; t--)
            values[t] = gramian_step(c, t, g, NULL);
        return DPMF_OK;
    }
    TRY_DONE(base_alloc_doubles(c->steps * states, "the Gramian's vectors", &q));
    TRY_DONE(base_alloc_doubles((lag < c->steps - lag ? lag : c->steps - lag) * states, "running products", &right));
    tvblt_gram_vectors(c, q);
    gram_diagonal(c, lag, q, right, values);
done:
    base_free(q);
    base_free(right);
    return status;
}
