/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saddle points. With K(t) = ln E_P[e^(tL)] of all steps,
 *
 *     delta(epsilon) = (1/2 pi i) int e^(K(z) - z epsilon) / (z (z+1)) dz    along Re z = t > 0;
 *
 * the exponent with the denominator in it, F(t) = K(t) - t epsilon - ln t - ln(1+t), is convex in t (K is, as a cumulant
 * generating function), F' runs from -infinity up: so for each epsilon there is one saddle, and turned around, each t is
 * the saddle of
 *
 *     epsilon(t) = K'(t) - 1/t - 1/(1+t),    ln delta ~ F(t) - ln(2 pi F''(t))/2,
 *
 * explicit in t (Daniels 1954), the first rising and the second falling. Both questions are one equation in ln t.
 *
 * Saddle points choose the order, the step and the window of certified computations, whose results are bounds for any
 * such choice.
 */
#include "account/saddle.h"

#include "base/memory.h"
#include <math.h>

/* ---- of any loss ---- */

static const double ORDER_MIN = 1e-3, ORDER_MAX = 1e12;

/* At the order t: the epsilon whose saddle point it is, and ln delta there. */
static double epsilon_at(saddle_cumulants *cumulants, const void *of, double t, double *log_delta) {
    static const double two_pi = 6.28318530717958647693;
    double k[3];
    cumulants(of, t, k);
    const double epsilon = k[1] - 1 / t - 1 / (1 + t);
    const double curvature = k[2] + 1 / (t * t) + 1 / ((1 + t) * (1 + t));
    *log_delta = k[0] - t * epsilon - log(t) - log1p(t) - 0.5 * log(two_pi * curvature);
    return epsilon;
}

saddle_point saddle_find(saddle_cumulants *cumulants, const void *of, double epsilon, double log_delta,
                         double order_max) {
    double low = log(ORDER_MIN), high = log(order_max), there;
    while (high - low > 1e-3) {
        const double middle = 0.5 * (low + high), e = epsilon_at(cumulants, of, exp(middle), &there);
        const int more = epsilon >= 0 ? e < epsilon : there > log_delta;
        *(more ? &low : &high) = middle;
    }
    const double order = exp(high), e = epsilon_at(cumulants, of, order, &there);
    saddle_point found = {.order = order, .epsilon = epsilon};
    if (!(epsilon >= 0)) found.epsilon = fmax(e + fmax(there - log_delta, 0) / order, 0);
    /* where the order is at an end of its range, Chernoff's bound moved there */
    found.log_delta = there + order * (e - found.epsilon);
    return found;
}

/*
 * ---- of one pair, on nodes ----
 *
 * E_P is the trapezoid rule in z. P is a mixture of two normal distributions and the loss is analytic within pi sigma^2
 * of the real axis, so with the step min(sigma, sigma^2)/4 the rule would be exact to about e^(-2 pi^2 4); its error is that of cutting the
 * losses off at the end, where little is left.
 */

dpmf_status saddle_nodes_create(const pair_constants *p, double log_cut, saddle_nodes *out) {
    const double top = pair_cut(p, log_cut), span = fmin(sqrt(-2 * log_cut), 60) * p->sigma;
    const double low = p->sign > 0 ? (p->direction == ACCOUNT_REPLACE ? -1 : 0) - span : top;
    const double high = p->sign > 0 ? top : 1 + span;
    const int64_t count = (int64_t)ceil(4 * (high - low) / fmin(p->sigma, p->sigma * p->sigma)) + 2;
    const double step = (high - low) / (double)(count - 1);
    double *memory = NULL;
    TRY(base_alloc_doubles(2 * count, "the nodes of a privacy loss", &memory));
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        const double z = low + (double)i * step;
        memory[i] = pair_log_weight(p, z) - 0.5 * z * z * p->inverse_variance;
        memory[count + i] = pair_loss(p, z);
        total += exp(memory[i]);
    }
    const double shift = log(total);
    for (int64_t i = 0; i < count; i++)
        memory[i] -= shift;
    *out = (saddle_nodes){p->n, count, memory, memory + count, top};
    return DPMF_OK;
}

void saddle_nodes_free(saddle_nodes *nodes) {
    base_free(nodes->log_weight);
}

void saddle_nodes_step(const saddle_nodes *nodes, double t, double k[3]) {
    const double *log_weight = nodes->log_weight, *loss = nodes->loss;
    double largest = -INFINITY;
    for (int64_t i = 0; i < nodes->count; i++)
        largest = fmax(largest, log_weight[i] + t * loss[i]);
    double s0 = 0, s1 = 0, s2 = 0;
    for (int64_t i = 0; i < nodes->count; i++) {
        const double exponent = log_weight[i] + t * loss[i] - largest;
        if (exponent < -45) continue;
        const double weight = exp(exponent);
        s0 += weight;
        s1 += weight * loss[i];
        s2 += weight * loss[i] * loss[i];
    }
    k[0] = largest + log(s0);
    k[1] = s1 / s0;
    k[2] = fmax(s2 / s0 - k[1] * k[1], 0);
}

/* Of all steps. */
static void nodes_cumulants(const void *of, double t, double k[3]) {
    const saddle_nodes *nodes = of;
    saddle_nodes_step(nodes, t, k);
    for (int i = 0; i < 3; i++)
        k[i] *= nodes->n;
}

saddle_point saddle_nodes_find(const saddle_nodes *nodes, double epsilon) {
    return saddle_find(nodes_cumulants, nodes, epsilon, 0, ORDER_MAX);
}

double saddle_nodes_epsilon(const saddle_nodes *nodes, double log_delta) {
    double low = log(ORDER_MIN), high = log(ORDER_MAX), there = 0, epsilon = 0;
    while (high - low > 1e-4) {
        const double middle = 0.5 * (low + high);
        epsilon = epsilon_at(nodes_cumulants, nodes, exp(middle), &there);
        *(there > log_delta ? &low : &high) = middle;
    }
    epsilon += (there - log_delta) / exp(high); /* the rest of the way along the slope, d ln delta / d epsilon = -t */
    return fmax(epsilon, 0);
}

dpmf_status saddle_guess(const account_pair *pair, const account_question *q, double *value) {
    static const double deepest = -1000; /* below the least double */
    const pair_constants p = pair_prepare(pair);
    double guess = q->of_epsilon ? q->given : -20; /* of ln delta: where the losses are cut off */
    for (int i = 0; i < 4; i++) {
        saddle_nodes nodes;
        TRY(saddle_nodes_create(&p, guess - p.log_n - 10, &nodes));
        if (q->of_epsilon)
            *value = saddle_nodes_epsilon(&nodes, q->given);
        else
            *value = guess = fmax(fmin(saddle_nodes_find(&nodes, q->given).log_delta, -1e-3), deepest);
        saddle_nodes_free(&nodes);
        if (q->of_epsilon) break;
    }
    return DPMF_OK;
}

/* ---- of one pair, by quadrature: bracketed by doubling, then regula falsi (Illinois) with bisection as guard ---- */

static const double log_two_pi = 1.83787706640934548356;

/* Everything at t for this epsilon; NAN: for the one whose saddle is here. False where K fails. */
static int shape_at(const account_pair *pair, double cut, double t, double epsilon, account_saddle *out) {
    const account_cumulant k = pair_cumulant(pair, cut, t, 1);
    if (!isfinite(k.error)) return 0;
    const double n = (double)pair->compositions;
    out->t = t;
    out->epsilon = isnan(epsilon) ? n * k.first - 1 / t - 1 / (t + 1) : epsilon;
    out->value = n * k.value - t * out->epsilon - log(t) - log1p(t);
    out->second = n * k.second + 1 / (t * t) + 1 / ((t + 1) * (t + 1));
    out->third = n * k.third - 2 / (t * t * t) - 2 / ((t + 1) * (t + 1) * (t + 1));
    out->scale = k.value;
    return isfinite(out->value) && isfinite(out->second) && isfinite(out->third);
}

/* Falls with t: epsilon - epsilon(t), or the approximation of ln delta less its target. -INFINITY past where K fails. */
static double residual(const account_pair *pair, double cut, double t, double epsilon, double log_delta,
                       account_saddle *out) {
    if (!shape_at(pair, cut, t, NAN, out)) return -INFINITY;
    if (!isnan(epsilon)) return epsilon - out->epsilon;
    return out->value - 0.5 * (log_two_pi + log(out->second)) - log_delta;
}

static int find(const account_pair *pair, double cut, double epsilon, double log_delta, account_saddle *out) {
    double low = 0, high = 0, at_low = 0, at_high = 0; /* low, high: ln t */
    at_low = at_high = residual(pair, cut, 1, epsilon, log_delta, out);
    for (int round = 0; at_high > 0; round++) {
        if (round == 30) return 0;
        low = high, at_low = at_high;
        high += 1.5;
        at_high = residual(pair, cut, exp(high), epsilon, log_delta, out);
    }
    for (int round = 0; at_low <= 0; round++) {
        if (round == 30) return 0;
        high = low, at_high = at_low;
        low -= 1.5;
        at_low = residual(pair, cut, exp(low), epsilon, log_delta, out);
    }
    /* t needs not be exact: a thousandth of the saddle's width, u = g''^(-1/2), costs nothing. */
    for (int round = 0; round < 100; round++) {
        double middle = low + (high - low) * at_low / (at_low - at_high);
        if (!(middle > low && middle < high) || round % 4 == 3) middle = 0.5 * (low + high);
        const double at = residual(pair, cut, exp(middle), epsilon, log_delta, out);
        const int finite = isfinite(at);
        if (finite && (high - low) * out->t * sqrt(out->second) < 1e-2) break;
        if (finite && !isnan(epsilon) && fabs(at) < 1e-3 * sqrt(out->second)) break;
        if (finite && isnan(epsilon) && fabs(at) < 1e-2) break;
        if (at > 0) {
            at_high *= 0.5;
            low = middle, at_low = at;
        } else {
            at_low *= 0.5;
            high = middle, at_high = at;
        }
        if (!(high - low > 1e-12)) return finite;
    }
    return isfinite(out->value) && shape_at(pair, cut, out->t, epsilon, out);
}

int saddle_at_epsilon(const account_pair *pair, double cut, double epsilon, account_saddle *out) {
    return find(pair, cut, epsilon, NAN, out);
}

int saddle_at_delta(const account_pair *pair, double log_delta, account_saddle *out) {
    return find(pair, INFINITY, NAN, log_delta, out);
}

int saddle_move(const account_pair *pair, double t, account_saddle *saddle) {
    account_saddle moved;
    if (!shape_at(pair, INFINITY, t, saddle->epsilon, &moved)) return 0;
    saddle->t = moved.t;
    saddle->value = moved.value;
    saddle->scale = moved.scale;
    return 1; /* the derivatives, which shape the contour, stay those of the saddle */
}
