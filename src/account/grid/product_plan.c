/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choices of a composition: nothing rests on them but how tight it is and how long it takes.
 *
 * K(t) = sum over the parts of times x ln E[e^(tL)], from their atoms. At the saddle order t of epsilon,
 *
 *     epsilon = K'(t) - 1/t - 1/(1+t),    ln delta ~ K(t) - t epsilon - ln t - ln(1+t) - ln(2 pi F'')/2,
 *
 * F'' = K''(t) + 1/t^2 + 1/(1+t)^2, as in account/grid/profile.c. The window must hold the tilted sum: what lies outside is
 * wrapped onto it. By Chernoff's bound at orders t +- s the wrapped mass is small when the window reaches
 * (K(t+-s) - K(t) - (+-s) epsilon + MARGIN)/s beyond epsilon, least over some s.
 */
#include "account/grid/product.h"

#include "base/memory.h"
#include <math.h>

static const double MARGIN = 16; /* e^-16 of delta is what the window may cost */
static const double ORDER_MIN = 1e-3;
enum { COARSE = 1024 }; /* atoms of a part, for choices */

/* Fewer atoms with the same mass and mean. */
typedef struct summary {
    int count;
    double *mass, *loss; /* COARSE each, of one part after the other */
    const grid_list *list;
} summary;

static int group_atoms(const hull_atoms *a, double step, double *mass, double *loss) {
    const int64_t width = a->count / COARSE + 1;
    int groups = 0;
    for (int64_t i = 0; i < a->count; i += width) {
        double sum = 0, moment = 0;
        for (int64_t j = i; j < i + width && j < a->count; j++) {
            sum += a->mass[j];
            moment += a->mass[j] * (double)(a->first + j);
        }
        mass[groups] = sum;
        loss[groups] = sum > 0 ? step * moment / sum : 0;
        groups++;
    }
    for (int g = groups; g < COARSE; g++) {
        mass[g] = loss[g] = 0;
    }
    return groups;
}

static dpmf_status summary_create(const grid_list *list, summary *out) {
    summary s = {.count = list->count, .list = list};
    TRY(base_alloc_doubles((int64_t)2 * list->count * COARSE, "a coarse privacy loss", &s.mass));
    s.loss = s.mass + (int64_t)list->count * COARSE;
    for (int i = 0; i < list->count; i++)
        group_atoms(&list->atoms[i], list->step, s.mass + (int64_t)i * COARSE, s.loss + (int64_t)i * COARSE);
    *out = s;
    return DPMF_OK;
}

/* K, K' and K'' at t. */
static void cumulants(const summary *s, double t, double k[3]) {
    k[0] = k[1] = k[2] = 0;
    for (int i = 0; i < s->count; i++) {
        const double *mass = s->mass + (int64_t)i * COARSE, *loss = s->loss + (int64_t)i * COARSE;
        const double n = s->list->atoms[i].times;
        double largest = -INFINITY, s0 = 0, s1 = 0, s2 = 0;
        for (int j = 0; j < COARSE; j++)
            if (mass[j] > 0) largest = fmax(largest, t * loss[j] + log(mass[j]));
        for (int j = 0; j < COARSE; j++) {
            if (!(mass[j] > 0)) continue;
            const double w = mass[j] * exp(t * loss[j] - largest);
            s0 += w;
            s1 += w * loss[j];
            s2 += w * loss[j] * loss[j];
        }
        k[0] += n * (largest + log(s0));
        k[1] += n * s1 / s0;
        k[2] += n * fmax(s2 / s0 - (s1 / s0) * (s1 / s0), 0);
    }
}

static double saddle_epsilon(const summary *s, double t, double *log_delta) {
    static const double two_pi = 6.28318530717958647693;
    double k[3];
    cumulants(s, t, k);
    const double epsilon = k[1] - 1 / t - 1 / (1 + t);
    const double curvature = k[2] + 1 / (t * t) + 1 / ((1 + t) * (1 + t));
    *log_delta = k[0] - t * epsilon - log(t) - log1p(t) - 0.5 * log(two_pi * curvature);
    return epsilon;
}

/* The order whose epsilon, or whose delta, is the wanted one; both fall or rise with it. */
static double find_order(const summary *s, double epsilon, double log_delta, double order_max, double *found,
                         double *log_found) {
    double low = log(ORDER_MIN), high = log(order_max), there;
    while (high - low > 1e-3) {
        const double middle = 0.5 * (low + high), e = saddle_epsilon(s, exp(middle), &there);
        const int more = epsilon >= 0 ? e < epsilon : there > log_delta;
        *(more ? &low : &high) = middle;
    }
    const double order = exp(high), e = saddle_epsilon(s, order, &there);
    *found = epsilon >= 0 ? epsilon : fmax(e + fmax(there - log_delta, 0) / order, 0);
    *log_found = there + order * (e - *found); /* where the order is at an end of its range, Chernoff's bound */
    return order;
}

static int64_t power_of_two_above(double x) {
    int64_t length = 64;
    while ((double)length < x && length < GRID_LENGTH_MAX) {
        length *= 2;
    }
    return length;
}

static void choose_window(const summary *s, double step, grid_list_plan *plan) {
    const double t = plan->order, epsilon = plan->epsilon;
    double at[3], above = INFINITY, below = INFINITY;
    cumulants(s, t, at);
    plan->deviation = sqrt(at[2]) + step;
    for (int i = -4; i <= 16; i++) {
        const double up = fmin(exp2(0.5 * i) / plan->deviation, 0.5 / step), down = fmin(up, t);
        double k[3];
        cumulants(s, t + up, k);
        const double distance = (k[0] - at[0] - up * epsilon + MARGIN) / up;
        if (distance < above) {
            above = distance;
            plan->wrap_order = up;
        }
        cumulants(s, t - down, k);
        below = fmin(below, (k[0] - at[0] + down * epsilon + MARGIN) / down);
    }
    const double room = plan->deviation + 4 * step;
    plan->length = power_of_two_above((fmax(fmax(above, below), 4 * plan->deviation) + room) / step);
    const double first = floor((epsilon - room) / step);
    plan->first = fabs(first) < 0x1p50 ? (int64_t)first : 0;
}

dpmf_status grid_list_plan_make(const grid_list *list, double epsilon, double log_delta, double order_max,
                                grid_list_plan *out) {
    grid_list_plan plan = {0};
    summary s = {0};
    TRY(summary_create(list, &s));
    plan.order = find_order(&s, epsilon, log_delta, order_max, &plan.epsilon, &plan.log_delta);
    choose_window(&s, list->step, &plan);
    base_free(s.mass);
    *out = plan;
    return DPMF_OK;
}
