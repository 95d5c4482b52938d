/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proven bounds on the arithmetic of exact streams (docs/exactness.md, "The arithmetic's part"). Notation: eps = 2^-53;
 * seeds have standard deviation 1; TAILS = 41 standard deviations are what no number of a run leaves but for a probability
 * of 2^-1000 (with 40 of them for the seeds and one for what rounding to the grid adds).
 *
 *     BLT       s_j <- (s_j - gap s_j) + m/f: five roundings of at most eps B a step, B = TAILS x 2 E, so that s_j is off by at
 *               most 5 eps B min(n, 1/gap_j). E = max |rows of (prefix sums) W|: both m_t and s_j are sums by parts of running
 *               sums, with weights of total 2.
 *     banded    the sum of b - 1 products in order: (b + 3) eps B sum |C[t,u]/C[t,t]|
 *     TV-BLT    e <- Phi e + delta, Phi = A - g c'/D the recursion of C: |c'e| <= sqrt(t) sqrt(c'P c) by Cauchy and Schwarz,
 *               P <- Phi P Phi' + diag(delta^2)
 *     filters   (terms + 4) eps TAILS sum |W[t,u]|
 *     replayed  errors and sizes of the buffers by their own recursions, with absolute values
 *
 * The shift's error. Where C is applied to what was released (fed back), a step is off by one grid step and twice the
 * arithmetic, times C[t,t]: spread = (sum C[t,t]^2)^(1/2). Where W is applied to seeds (filters, replayed), the shift is
 * C Delta + C e with |e| that much each: spread = sqrt(n) |C|_F <= n x the largest column of C.
 */
#include "noise/exact.h"

#include "base/memory.h"
#include "error/error.h"
#include "sensitivity/sensitivity.h"

#include <math.h>
#include <string.h>

static const double EPS = 0x1p-53, TAILS = 41;

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* E: the largest error of running sums of the strategy's rows. */
static dpmf_status running_sums(const dpmf_strategy *s, const dpmf_run *run, double *out) {
    dpmf_workload *prefix = NULL;
    double *per_step = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_workload_parse("prefix", s->steps, &prefix));
    TRY_DONE(base_alloc_doubles(s->steps, "the sizes of running sums", &per_step));
    TRY_DONE(dpmf_error_compute(prefix, s, run, per_step));
    *out = 0;
    for (int64_t t = 0; t < s->steps; t++)
        *out = larger(*out, per_step[t]);
done:
    base_free(per_step);
    dpmf_workload_free(prefix);
    return status;
}

/* ---- BLT ---- */

static dpmf_status bound_blt(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const blt_parameters *c = blt_of(plan->leaf);
    double sums = 0, largest = 0, squares = 0, eta = 0;
    TRY(running_sums(plan->leaf, run, &sums));
    for (int64_t t = 0; t < plan->strategy->steps; t++) {
        const double factor = fabs(noise_route_factor(plan, t));
        largest = larger(largest, factor);
        squares += 1 / (factor * factor);
    }
    const double size = TAILS * 2 * sums;
    for (int j = 0; j < c->count; j++) {
        if (!(c->gap[j] <= 1))
            return base_fail(DPMF_ERROR_UNSUPPORTED,
                             "exact noise of a BLT: decay %g, accepted: 0 to 1 (its buffers' size is not known)",
                             1 - c->gap[j]);
        eta += fabs(c->scale[j]) * (5 * fmin((double)plan->length, 1 / c->gap[j]) + c->count + 3);
    }
    *out = (noise_exact_bounds){largest * eta * EPS * size, largest * size, sqrt(squares)};
    return DPMF_OK;
}

/* ---- banded ---- */

static dpmf_status bound_banded(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const dpmf_strategy *c = plan->strategy;
    double sums = 0, worst = 0, squares = 0, *row = NULL;
    TRY(running_sums(c, run, &sums));
    TRY(base_alloc_doubles(plan->lags + 1, "a row of C", &row));
    for (int64_t t = 0; t < c->steps; t++) {
        double total = 0;
        c->ops->row(c, t, row);
        for (int64_t j = 1; j <= plan->lags && j <= t % plan->length; j++)
            total += fabs(row[j] / row[0]);
        worst = larger(worst, total);
        squares += row[0] * row[0];
    }
    base_free(row);
    const double size = TAILS * 2 * sums;
    *out = (noise_exact_bounds){worst * (double)(plan->lags + 4) * EPS * size, size, sqrt(squares)};
    return DPMF_OK;
}

/* ---- TV-BLT ---- */

enum { STATES_MAX = 128 };

typedef struct analysis {
    const tvblt_parameters *c;
    int states;
    double covariance[STATES_MAX][2]; /* of x_j, and order 2: with its x'_j (of x_j) or with x_j (of x'_j) */
    double size[STATES_MAX];          /* TAILS standard deviations, the largest so far */
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
        a->size[j] = larger(a->size[j], TAILS * sqrt(a->covariance[j][0]));
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
    const double error = sqrt((double)local * larger(now, 0)) + (states + 3) * EPS * total;
    for (int j = 0; j < states; j++)
        apply_recursion(a, t, a->p + j, states); /* columns */
    for (int i = 0; i < states; i++)
        apply_recursion(a, t, a->p + i * states, 1); /* rows */
    grow_buffers(a, t);
    const double seed = TAILS + (states + 3) * total / a->c->diagonal[t];
    for (int j = 0; j < states; j++) {
        const int node = j % nodes, second = a->c->order == 2;
        const double sizes = a->size[node] + (second ? a->size[nodes + node] : 0),
                     factors = 1 + fabs(keep[node]) + (second ? fabs(keep[nodes + node]) : 0),
                     delta = 8 * EPS * (factors * sizes + fabs(gain[j]) * seed);
        a->p[j * states + j] += delta * delta;
    }
    return error;
}

static dpmf_status bound_tvblt(const noise_plan *plan, noise_exact_bounds *out) {
    const tvblt_parameters *c = tvblt_of(plan->leaf);
    analysis *a = NULL;
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
        reach = larger(reach, factor * total + TAILS * own);
        eta = larger(eta, factor * step_errors(a, local, local));
        squares += 1 / (own * own);
    }
    base_free(a);
    *out = (noise_exact_bounds){1.01 * eta, reach, sqrt(squares)}; /* 1.01: this computation's own rounding */
    return DPMF_OK;
}

/* ---- W applied to seeds ---- */

static dpmf_status forward_spread(const noise_plan *plan, const dpmf_run *run, double *spread) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity column;
    if (run != NULL) o.run = *run;
    TRY(dpmf_sensitivity_compute(plan->strategy, NULL, &o, &column));
    *spread = (double)plan->strategy->steps * column.value;
    return DPMF_OK;
}

static dpmf_status bound_filter(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const dpmf_strategy *c = plan->strategy;
    double sums = 0, total = 0, *row = NULL;
    TRY(running_sums(c, run, &sums));
    const int constant = strcmp(plan->leaf->ops->class_name, "toeplitz") == 0; /* rows of one sequence */
    const int by_rows = strategy_can(c, STRATEGY_CAN_INVERSE_ROW) && c->ops->inverse_row != NULL &&
                        c->steps < ((int64_t)1 << 31) / plan->lags;
    if (constant && strategy_can(plan->leaf, STRATEGY_CAN_INVERSE_ROW)) {
        double largest = 0;
        TRY(base_alloc_doubles(plan->lags, "a row of W", &row));
        plan->leaf->ops->inverse_row(plan->leaf, plan->length - 1, row);
        for (int64_t j = 0; j < plan->lags; j++)
            total += fabs(row[j]);
        for (int64_t t = 0; t < c->steps; t++)
            largest = larger(largest, fabs(noise_route_factor(plan, t)));
        total *= largest;
        base_free(row);
    } else if (by_rows) {
        TRY(base_alloc_doubles(plan->lags, "a row of W", &row));
        for (int64_t t = 0; t < c->steps; t++) {
            double here = 0;
            c->ops->inverse_row(c, t, row);
            for (int64_t j = 0; j < plan->lags && j <= t % plan->length; j++)
                here += fabs(row[j]);
            total = larger(total, here);
        }
        base_free(row);
    } else {
        total = sqrt((double)plan->lags) * 2 * sums; /* |W[t,:]| <= 2 E */
    }
    out->arithmetic = (double)(plan->lags + 4) * EPS * TAILS * total;
    out->reach = TAILS * 2 * sums;
    return forward_spread(plan, run, &out->spread);
}

static dpmf_status bound_replay(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const replay_coefficients *c = &replay_of(plan->leaf)->c;
    const int64_t b = c->shape.period;
    const int r = (int)plan->slots;
    double size[STATES_MAX] = {0}, error[STATES_MAX] = {0};
    *out = (noise_exact_bounds){0};
    if (r > STATES_MAX) return base_fail(DPMF_ERROR_UNSUPPORTED, "exact noise: more than %d buffers", STATES_MAX);
    for (int64_t t = 0; t < plan->strategy->steps; t++) {
        const int64_t local = t % plan->length, epoch = local / b;
        const double factor = fabs(c->scale[local % b] * noise_route_factor(plan, t));
        double squares = 0, sum = 0, sizes = 0, errors = 0;
        if (local == 0) {
            memset(size, 0, sizeof size);
            memset(error, 0, sizeof error);
        }
        for (int64_t i = 0; i <= epoch; i++) {
            const double weight = c->mix[replay_pair((int)epoch, (int)i) * b + local % b];
            squares += weight * weight;
            sum += fabs(weight);
        }
        const double mixed = TAILS * sqrt(squares), mix_error = (double)(epoch + 6) * EPS * TAILS * sum;
        for (int j = 0; j < r; j++) {
            sizes += fabs(c->h[local * r + j]) * size[j];
            errors += fabs(c->h[local * r + j]) * error[j];
        }
        out->arithmetic = larger(out->arithmetic, factor * (mix_error + errors + (r + 4) * EPS * (mixed + sizes)));
        out->reach = larger(out->reach, factor * (mixed + sizes));
        for (int j = 0; j < r; j++) {
            const double beta = fabs(c->beta[local * r + j]), kept = fabs(c->rho[j]);
            error[j] = kept * error[j] + beta * mix_error + 5 * EPS * (size[j] + beta * mixed);
            size[j] = kept * size[j] + beta * mixed;
        }
    }
    return forward_spread(plan, run, &out->spread);
}

dpmf_status noise_exact_bound(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    *out = (noise_exact_bounds){0};
    if (plan->route->exact == NOISE_EXACT_FEEDBACK) return bound_banded(plan, run, out);
    if (plan->route->exact == NOISE_EXACT_FILTER) return bound_filter(plan, run, out);
    if (plan->route->exact == NOISE_EXACT_REPLAY) return bound_replay(plan, run, out);
    if (plan->route->exact == NOISE_EXACT_STATES)
        return blt_of(plan->leaf) != NULL ? bound_blt(plan, run, out) : bound_tvblt(plan, out);
    out->reach = TAILS; /* independent noise: a row is its seed, and nothing is rounded */
    for (int64_t t = 0; t < plan->strategy->steps; t++) {
        const dpmf_strategy *c = plan->strategy;
        double own = 0;
        if (strategy_can(c, STRATEGY_CAN_INVERSE_ROW) && c->ops->inverse_bands(c) == 1) {
            c->ops->inverse_row(c, t, &own);
        } else {
            c->ops->row(c, t, &own);
            own = 1 / own;
        }
        out->reach = larger(out->reach, TAILS * fabs(own));
    }
    return DPMF_OK;
}
