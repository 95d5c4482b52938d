/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of a TV-BLT, for the route of few buffers (noise/states.c): y = diagonal z + sum_j x_j,
 * x_j <- x_j + ((keep_j - 1) x_j + gain_j z), or of order 2.
 *
 * The arithmetic of its exact rows (docs/exactness.md): e <- Phi e + delta, Phi = A - g c'/D the recursion of C;
 * |c'e| <= sqrt(t) sqrt(c'P c) by Cauchy and Schwarz, P <- Phi P Phi' + diag(delta^2).
 */
#include "families/tvblt/tvblt.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

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

enum { STATES_MAX = 128 };

typedef struct analysis {
    const tvblt_parameters *c;
    int states;
    double covariance[STATES_MAX][2]; /* of x_j, and order 2: with its x'_j (of x_j) or with x_j (of x'_j) */
    double size[STATES_MAX];          /* NOISE_TAILS standard deviations, the largest so far */
    double p[STATES_MAX * STATES_MAX];
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
    if (tvblt_states(c) > STATES_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "exact noise of a TV-BLT: %d buffers, accepted up to %d",
                         tvblt_states(c), STATES_MAX);
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

void tvblt_plan_noise(noise_plan *plan) {
    const tvblt_parameters *c = tvblt_of(plan->leaf);
    const noise_states states = {c->order == 1 ? DPMF_RECIPE_TVBLT : DPMF_RECIPE_TVBLT_SECOND, c->nodes, fill_weights};
    noise_plan_states(plan, &states);
    plan->bound = bound_arithmetic;
}
