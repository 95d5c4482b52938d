/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of the ascent of optimum/epochs/climb.c when epochs are long: the solution for a quarter of the positions
 * in each epoch, found the same way and stretched. A coarse step stands for as many fine ones as it replaces: momentum
 * is raised to that power, learning rates and weights are sampled.
 *
 * V changes as fast between the first two positions of an epoch as between the second and the fourth, for any length of
 * the epoch; the same holds from its end. So positions correspond by the logarithms of their odds, ln((i + 1/2)/(b - i
 * - 1/2)), in which first, middle and last ones meet. The rest changes slowly and steadily with the length (prefix
 * sums, three epochs of 16, 64 and 256 positions: correlations in the middle 0.470, 0.411, 0.362), so we extrapolate
 * with a damped difference of the last two lengths. With momentum this scaling fails: there positions correspond by
 * their share of the epoch.
 */
#include "base/memory.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { COARSE_MIN = 6, COARSER = 4, COARSEST_STEPS = 24, SHORT = 32, SHORT_STEPS = 12 };
static const double ONWARD = 0.8; /* part of the last change, from one length to the next */

/* The fine step that coarse step t stands for. */
static int64_t fine_step(const optimum_epochs *e, int64_t coarse, int64_t t) {
    int64_t step = t / coarse * e->b + t % coarse * e->b / coarse;
    return step < e->n ? step : e->n - 1;
}

static dpmf_status coarsen(const optimum_epochs *e, int64_t coarse, dpmf_workload **out, double **weights) {
    const dpmf_workload *a = e->workload;
    int64_t last = e->n - (e->k - 1) * e->b, n = (e->k - 1) * coarse + (last * coarse + e->b - 1) / e->b;
    double *rates = NULL;
    double ratio = (double)e->b / (double)coarse;
    /* a coarse step decays like `ratio` fine ones; the options want decay times every rate below 1 */
    dpmf_workload_options o = {pow(a->momentum, ratio), a->nesterov, a->decay, NULL};
    dpmf_status status = DPMF_OK;
    if (a->learning_rate != NULL) {
        TRY(base_alloc_doubles(n, "coarse learning rates", &rates));
        for (int64_t t = 0; t < n; t++)
            rates[t] = a->learning_rate[fine_step(e, coarse, t)];
        o.learning_rate = rates;
    }
    if (e->weights != NULL) {
        TRY_DONE(base_alloc_doubles(n, "coarse weights", weights));
        for (int64_t t = 0; t < n; t++)
            (*weights)[t] = e->weights[fine_step(e, coarse, t)];
    }
    TRY_DONE(dpmf_workload_create(n, &o, out));
done:
    base_free(rates);
    return status;
}

/* The place among `coarse` positions of fine position i: by the logarithms of odds, or by the share. */
static double place(int64_t fine, int64_t coarse, int by_share, int64_t i) {
    const double odds = ((double)i + 0.5) / ((double)(fine - i) - 0.5);
    const double scaled = by_share ? odds : pow(odds, log(2 * (double)coarse - 1) / log(2 * (double)fine - 1));
    return fmin(fmax((double)coarse * scaled / (1 + scaled) - 0.5, 0), (double)(coarse - 1));
}

/*
 * to += by times the value at `at` of `coarse` records of `width` numbers, cubic between them (Catmull and Rom), since
 * kinks would cost the dual little and the mechanism much.
 */
static void add_between(int64_t coarse, int64_t width, double by, double at, const double *from, double *to) {
    const int64_t j = (int64_t)at < coarse - 2 ? (int64_t)at : coarse - 2;
    const int64_t before = j > 0 ? j - 1 : 0, after = j + 2 < coarse ? j + 2 : coarse - 1;
    const double w = at - (double)j;
    const double weight[4] = {w * (-0.5 + w * (1 - 0.5 * w)), 1 + w * w * (-2.5 + 1.5 * w),
                              w * (0.5 + w * (2 - 1.5 * w)), w * w * (-0.5 + 0.5 * w)};
    for (int64_t q = 0; q < width; q++)
        to[q] += by * (weight[0] * from[before * width + q] + weight[1] * from[j * width + q] +
                       weight[2] * from[(j + 1) * width + q] + weight[3] * from[after * width + q]);
}

/* V's part of the unknowns: the diagonals, then the correlations. */
static void stretch_all(const epochs_climb *from, double by, const double *numbers, const epochs_climb *to,
                        double *out) {
    const int64_t fine = to->epochs->b, coarse = from->epochs->b;
    const int by_share = to->epochs->workload->momentum > 0;
    for (int64_t i = 0; i < fine; i++) {
        const double at = place(fine, coarse, by_share, i);
        add_between(coarse, 1, by, at, numbers, out + i);
        add_between(coarse, to->correlations, by, at, numbers + coarse, out + fine + i * to->correlations);
    }
}

void epochs_climb_longer(const epochs_climb *c, int64_t b, int64_t i, double *theta, double *correlations) {
    const int64_t coarse = c->epochs->b;
    const int by_share = c->epochs->workload->momentum > 0;
    const double lengths = log((double)b / (double)coarse) / log(COARSER);
    const double onward = by_share ? 0 : ONWARD * (1 - pow(ONWARD, lengths)) / (1 - ONWARD);
    const double at = place(b, coarse, by_share, i);
    *theta = 0;
    memset(correlations, 0, (size_t)c->correlations * sizeof *correlations);
    for (int part = 0; part < 2; part++) {
        const double *from = part ? c->trend : c->y, by = part ? onward : 1;
        add_between(coarse, 1, by, at, from, theta);
        add_between(coarse, c->correlations, by, at, from + coarse, correlations);
    }
}

/* Roots of the weights of the steps, epoch by epoch; missing steps of the last epoch take the last one's. */
static void stretch_weights(const epochs_climb *from, epochs_climb *to) {
    const optimum_epochs *fine = to->epochs, *coarse = from->epochs;
    const int by_share = fine->workload->momentum > 0;
    for (int64_t t = 0; t < fine->n; t++) {
        const double at = place(fine->b, coarse->b, by_share, t % fine->b);
        const int64_t first = t / fine->b * coarse->b, last = coarse->n - 1;
        const int64_t below = first + (int64_t)at, above = below + 1 < first + coarse->b ? below + 1 : below;
        const double w = at - floor(at), *y = from->y + from->first_weight;
        to->y[to->first_weight + t] = (1 - w) * y[below < last ? below : last] + w * y[above < last ? above : last];
    }
}

dpmf_status epochs_climb_coarse(epochs_climb *c, double spend) {
    const int64_t coarse = c->epochs->b;
    const int alone = coarse / COARSER < COARSE_MIN; /* no shorter run has ascended */
    int iterations = spend > 0 ? (int)fmin(200, spend / epochs_cost(c->epochs)) : 200;
    TRY(epochs_climb_start(c));
    const int least = alone ? COARSEST_STEPS : coarse <= SHORT ? SHORT_STEPS : 0; /* a trend needs two good ones */
    if (iterations < least) iterations = least;
    if (iterations < 2) return DPMF_OK;
    for (int64_t i = 0; i < c->first_weight; i++)
        c->trend[i] -= c->y[i]; /* minus the stretched values, without their trend */
    TRY(epochs_climb_run(c, 1e-5, iterations));
    for (int64_t i = 0; i < c->first_weight; i++)
        c->trend[i] = alone ? 0 : c->trend[i] + c->y[i];
    return DPMF_OK;
}

dpmf_status epochs_climb_start(epochs_climb *c) {
    optimum_epochs *e = c->epochs, few = {0};
    int64_t coarse = e->b / COARSER;
    dpmf_workload *workload = NULL;
    double *weights = NULL;
    epochs_climb climb = {0};
    dpmf_status status = DPMF_OK;
    if (e->dense || coarse < COARSE_MIN) return DPMF_OK;
    TRY_DONE(coarsen(e, coarse, &workload, &weights));
    TRY_DONE(epochs_create(workload, e->k, coarse, e->max_loss, weights, e->pool, &few));
    TRY_DONE(epochs_climb_create(&few, fmax(c->tolerance, 1e-6), c->run, &climb));
    climb.spend = c->spend;
    climb.barrier = c->barrier * (double)e->n / (double)few.n;
    TRY_DONE(epochs_climb_coarse(&climb, c->spend));
    memset(c->trend, 0, (size_t)c->first_weight * sizeof *c->trend);
    /* the max loss: weights change V by more than the length does */
    if (e->workload->momentum == 0 && !e->max_loss) stretch_all(&climb, ONWARD, climb.trend, c, c->trend);
    memcpy(c->y, c->trend, (size_t)c->first_weight * sizeof *c->y);
    stretch_all(&climb, 1, climb.y, c, c->y);
    if (e->max_loss) stretch_weights(&climb, c);
done:
    epochs_climb_free(&climb);
    epochs_free(&few);
    base_free(weights);
    dpmf_workload_free(workload);
    return status;
}
