/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lower bounds from the patterns of a file: the draw that the nuclear norm needs (optimum/bound.c), for any number of steps, and the
 * dual of the optimum (optimum/patterns/solve.c), for few.
 */
#include "base/memory.h"
#include "optimum/epochs/epochs.h"
#include "optimum/patterns/patterns.h"

#include <math.h>

/*
 * Draws of patterns for the nuclear norm: in every round the pattern whose steps weigh most, whereupon their weights fall
 * (multiplicative weights: Plotkin, Shmoys and Tardos 1995). After r rounds a step that is in m of the drawn patterns has the
 * probability m/r; the best r counts. Any draw gives a bound, so that nothing has to converge. 0: a step is in no pattern.
 */
dpmf_status patterns_draw(const dpmf_participation *p, double *apart) {
    const double total = (double)p->begins[p->patterns];
    const int64_t n = p->steps, rounds = (int64_t)fmin(20000, fmax(200, 1e9 / total));
    double *weight = NULL, *drawn = NULL, best = INFINITY;
    dpmf_status status = DPMF_OK;
    *apart = 0;
    if (!p->covers) return DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "the weights of steps", &weight));
    TRY_DONE(base_alloc_doubles(n, "the steps drawn", &drawn));
    for (int64_t t = 0; t < n; t++)
        weight[t] = 1;
    for (int64_t r = 1; r <= rounds; r++) {
        int64_t heaviest = 0;
        double most = -1, least = INFINITY;
        for (int64_t q = 0; q < p->patterns; q++) {
            double sum = 0;
            for (int64_t j = p->begins[q]; j < p->begins[q + 1]; j++)
                sum += weight[p->listed[j]];
            if (sum > most) heaviest = q;
            if (sum > most) most = sum;
        }
        if (!(most > 1e-250)) break;
        for (int64_t j = p->begins[heaviest]; j < p->begins[heaviest + 1]; j++) {
            weight[p->listed[j]] *= 0.9;
            drawn[p->listed[j]]++;
        }
        for (int64_t t = 0; t < n; t++)
            least = fmin(least, drawn[t]);
        if (least > 0) best = fmin(best, (double)r / least);
    }
    *apart = isfinite(best) ? best : 0;
done:
    base_free(weight);
    base_free(drawn);
    return status;
}

static const double TOLERANCE = 1e-3; /* of a bound that is printed beside a loss; optimize goes further */

dpmf_status patterns_lower_bound(const dpmf_workload *a, const dpmf_participation *p, const double *weights,
                                 int rms_alone, int64_t most, const dpmf_run *run, epochs_lower *out) {
    const int losses = rms_alone || weights != NULL ? 1 : 2;
    epochs_lower found = {.rms_gap = INFINITY, .max_gap = INFINITY};
    *out = found;
    for (int64_t t = 0; weights != NULL && t < a->steps; t++)
        if (!(weights[t] > 0)) return DPMF_OK;
    if (a->steps > most || a->form == WORKLOAD_OPERATOR || !p->covers) return DPMF_OK;
    for (int max_loss = 0; max_loss < losses; max_loss++) {
        const patterns_task task = {.workload = a,
                                    .participation = p,
                                    .max_loss = max_loss,
                                    .weights = weights,
                                    .tolerance = TOLERANCE,
                                    .run = run};
        patterns_answer answer = {0};
        const dpmf_status status = patterns_solve(&task, &answer);
        base_free(answer.c);
        if (status == DPMF_ERROR_UNSUPPORTED || status == DPMF_ERROR_NUMERICAL) break; /* none from here */
        TRY(status);
        *(max_loss ? &found.max_loss : &found.rms_loss) = sqrt(answer.lower / (max_loss ? 1 : (double)a->steps));
        *(max_loss ? &found.max_gap : &found.rms_gap) = sqrt(answer.upper / answer.lower) - 1;
    }
    *out = found;
    return DPMF_OK;
}
