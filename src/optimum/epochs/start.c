/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the climb of optimum/epochs/climb.c begins when epochs are long: at the solution for a quarter of the positions
 * in each epoch, found the same way and stretched. A coarse step stands for as many fine ones as it replaces: momentum
 * is raised to that power, learning rates and weights are sampled.
 */
#include "base/memory.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

#include <math.h>

enum { COARSE_MIN = 16, COARSER = 4, COARSEST_STEPS = 12 };

/* The fine step that coarse step t stands for. */
static int64_t fine_step(const dpmf_i_optimum_epochs *e, int64_t coarse, int64_t t) {
    int64_t step = t / coarse * e->b + t % coarse * e->b / coarse;
    return step < e->n ? step : e->n - 1;
}

static dpmf_status coarsen(const dpmf_i_optimum_epochs *e, int64_t coarse, dpmf_workload **out, double **weights) {
    const dpmf_workload *a = e->workload;
    int64_t last = e->n - (e->k - 1) * e->b, n = (e->k - 1) * coarse + (last * coarse + e->b - 1) / e->b;
    double *rates = NULL;
    double ratio = (double)e->b / (double)coarse;
    /* a coarse step forgets what `ratio` fine ones do; the options want decay times every rate below 1 */
    dpmf_workload_options o = {pow(a->momentum, ratio), a->nesterov, a->decay, NULL};
    dpmf_status status = DPMF_OK;
    if (a->learning_rate != NULL) {
        TRY(dpmf_i_base_alloc_doubles(n, "coarse learning rates", &rates));
        for (int64_t t = 0; t < n; t++)
            rates[t] = a->learning_rate[fine_step(e, coarse, t)];
        o.learning_rate = rates;
    }
    if (e->weights != NULL) {
        TRY_DONE(dpmf_i_base_alloc_doubles(n, "coarse weights", weights));
        for (int64_t t = 0; t < n; t++)
            (*weights)[t] = e->weights[fine_step(e, coarse, t)];
    }
    TRY_DONE(dpmf_workload_create(n, &o, out));
done:
    dpmf_i_base_free(rates);
    return status;
}

/*
 * to, `fine` records of `width` numbers, from `coarse` of them: cubic between the middles of their cells (Catmull and
 * Rom), for kinks would cost the dual little and the mechanism much.
 */
static void stretch(int64_t fine, int64_t coarse, int64_t width, const double *from, double *to) {
    for (int64_t i = 0; i < fine; i++) {
        double at = ((double)i + 0.5) * (double)coarse / (double)fine - 0.5;
        at = fmin(fmax(at, 0), (double)(coarse - 1));
        int64_t j = (int64_t)at < coarse - 2 ? (int64_t)at : coarse - 2;
        int64_t before = j > 0 ? j - 1 : 0, after = j + 2 < coarse ? j + 2 : coarse - 1;
        double w = at - (double)j;
        double weight[4] = {w * (-0.5 + w * (1 - 0.5 * w)), 1 + w * w * (-2.5 + 1.5 * w), w * (0.5 + w * (2 - 1.5 * w)),
                            w * w * (-0.5 + 0.5 * w)};
        for (int64_t q = 0; q < width; q++)
            to[i * width + q] = weight[0] * from[before * width + q] + weight[1] * from[j * width + q] +
                                weight[2] * from[(j + 1) * width + q] + weight[3] * from[after * width + q];
    }
}

static void stretch_weights(const dpmf_i_optimum_epochs_climb *from, dpmf_i_optimum_epochs_climb *to) {
    const dpmf_i_optimum_epochs *fine = to->epochs, *coarse = from->epochs;
    for (int64_t t = 0; t < fine->n; t++) {
        int64_t u = t / fine->b * coarse->b + t % fine->b * coarse->b / fine->b;
        to->y[to->first_weight + t] = from->y[from->first_weight + (u < coarse->n ? u : coarse->n - 1)];
    }
}

dpmf_status dpmf_i_optimum_epochs_climb_start(dpmf_i_optimum_epochs_climb *c) {
    dpmf_i_optimum_epochs *e = c->epochs, few = {0};
    int64_t coarse = e->b / COARSER;
    dpmf_workload *workload = NULL;
    double *weights = NULL;
    dpmf_i_optimum_epochs_climb climb = {0};
    dpmf_status status = DPMF_OK;
    if (e->dense || coarse < COARSE_MIN) return DPMF_OK;
    TRY_DONE(coarsen(e, coarse, &workload, &weights));
    TRY_DONE(dpmf_i_optimum_epochs_create(workload, e->k, coarse, e->max_loss, weights, e->pool, &few));
    TRY_DONE(dpmf_i_optimum_epochs_climb_create(&few, fmax(c->tolerance, 1e-6), c->run, &climb));
    climb.spend = c->spend;
    climb.barrier = c->barrier * (double)e->n / (double)few.n;
    TRY_DONE(dpmf_i_optimum_epochs_climb_start(&climb));
    int least = coarse / COARSER < COARSE_MIN ? COARSEST_STEPS : 0; /* nobody below has climbed */
    int iterations = c->spend > 0 ? (int)fmin(200, c->spend / dpmf_i_optimum_epochs_cost(&few)) : 200;
    if (iterations < least) iterations = least;
    if (iterations >= 2) TRY_DONE(dpmf_i_optimum_epochs_climb_run(&climb, 1e-5, iterations));
    stretch(e->b, coarse, 1, climb.y, c->y);
    stretch(e->b, coarse, c->correlations, climb.y + coarse, c->y + e->b);
    if (e->max_loss) stretch_weights(&climb, c);
done:
    dpmf_i_optimum_epochs_climb_free(&climb);
    dpmf_i_optimum_epochs_free(&few);
    dpmf_i_base_free(weights);
    dpmf_workload_free(workload);
    return status;
}
