/* SPDX-License-Identifier: Apache-2.0 */
/* Dense C as candidates of a design: where the search and the stream are worth their time. */
#include "families/families.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "design/design.h"
#include "families/banded/banded.h"
#include "families/toeplitz/toeplitz.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * Seconds, roughly, on one core, from what takes longest: evaluations of the dual, O(n k^2), and matrices. Predicted,
 * not measured, so that the answer is the same on every machine. Without sampling nothing is better than dense; its
 * stream is slow, and the choice decides whether it is too slow. Over several epochs the max loss converges slowly,
 * with momentum very slowly (0.1 %, 5 epochs: 266 steps of prefix sums 9 s, 120 with momentum more than a minute).
 */
static double dense_seconds(const dpmf_design *d) {
    const double n = (double)d->problem.steps, k = (double)d->problem.participation->count;
    const int momentum = d->problem.workload->momentum > 0, max_loss = d->problem.loss == DPMF_LOSS_MAX;
    if (workload_is_single(d->problem.participation)) return 1e-9 * (max_loss ? 10 : 1) * n * n * n;
    if (d->problem.participation->pattern == WORKLOAD_LISTED) return 2e-6 * (max_loss ? 4 : 1) * n * n * n;
    const double evaluations = (momentum ? 9e-5 : 3e-5) * n * k * k * (!max_loss ? 1 : momentum ? 300 : 40);
    return evaluations + 2e-10 * (max_loss ? 10 : 1) * n * n * n;
}

/* Does a stream of any dense C fit the memory? */
static dpmf_status dense_fits(const dpmf_design *d, int *fits) {
    const int64_t n = d->problem.steps;
    double *c = NULL;
    dpmf_strategy *s = NULL;
    design_stream stream = {0};
    dpmf_status status = DPMF_OK;
    *fits = 1;
    if (d->options.memory == 0) return DPMF_OK;
    TRY(base_alloc_square(n, "C", &c));
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u <= t; u++)
            c[t * n + u] = u == t ? 2 : 1; /* only where it is not zero matters */
    TRY_DONE(dpmf_strategy_create_dense(n, c, &s));
    TRY_DONE(design_cost(d, s, &stream));
    *fits = design_fits(d, stream.bytes, stream.kept);
done:
    dpmf_strategy_free(s);
    base_free(c);
    return status;
}

/* Above this many steps the dense stream is slower and larger than every other. */
static const int64_t DENSE_STREAMS = 128;

dpmf_status dense_candidates(dpmf_design *d) {
    const double most = 60; /* seconds */
    int fits = 1, cannot_win = 0;
    const int named = design_is_named(d, DPMF_FAMILY_DENSE);
    if (d->problem.steps < 2 || !design_is_allowed(d, DPMF_FAMILY_DENSE)) return DPMF_OK;
    if (d->problem.steps > DPMF_DENSE_STEPS_MAX) {
        design_note_skipped(d, "dense was left out: the library does not form it for more than %d steps.",
                            (int)DPMF_DENSE_STEPS_MAX);
        return DPMF_OK;
    }
    if (!named) TRY(design_cannot_win(d, "dense", &cannot_win));
    if (cannot_win) return DPMF_OK;
    if (!named && d->problem.steps > DENSE_STREAMS && design_is_proven(d)) {
        design_note_skipped(d, "dense was left out: a mechanism above is within 0.1 %% of the proven bound "
                               "(--families dense,... includes it).");
        return DPMF_OK;
    }
    if (!named && dense_seconds(d) > most) {
        design_note_skipped(d,
                            "dense was left out: computing it would take about %.2g s, more than %g (--families "
                            "dense,... includes it).",
                            dense_seconds(d), most);
        return DPMF_OK;
    }
    TRY(dense_fits(d, &fits));
    if (!named && d->problem.steps > DENSE_STREAMS && !fits) {
        design_note_skipped(d, "dense was left out: its noise stream does not fit the memory (--memory BYTES).");
        return DPMF_OK;
    }
    /* the max loss converges slowly: its last digit would take longer than all the rest */
    const double tolerance = d->problem.steps <= DENSE_STREAMS && d->problem.loss == DPMF_LOSS_RMS ? 1e-4 : 1e-3;
    return design_add_best(d, &(search_request){.family = DPMF_FAMILY_DENSE, .tolerance = tolerance}, NULL);
}

/* Over patterns that overlap, the optimum of more steps takes longer than all other candidates together. */
static const int64_t SEPARATED_STEPS = 24;

dpmf_status dense_separated_candidates(dpmf_design *d, design_federated_range *f, int64_t i) {
    const int named = design_is_named(d, DPMF_FAMILY_DENSE);
    const char *why = NULL;
    dpmf_optimize_options o = design_optimize_options(d);
    dpmf_strategy *s = NULL;
    double least = INFINITY;
    int kept = 0;
    if (d->problem.steps < 2 || i > 0 || (f->points > 1 && !named)) return DPMF_OK; /* it is made for one separation */
    for (int64_t j = 0; j < f->count; j++)
        least = fmin(least, f->item[j].loss[0]);
    if (d->problem.steps > DPMF_DENSE_STEPS_MAX)
        why = "the steps are more than the library forms it for";
    else if (!named && d->problem.steps > SEPARATED_STEPS)
        why = "computing it takes long at this number of steps (--families dense,... includes it)";
    else if (!named) {
        TRY(design_find_bound(d));
        if (d->unsampled.sigma * least <= DESIGN_CLOSE * design_bound_noise(d))
            why = "a mechanism above is within 0.1 % of the proven bound (--families dense,... includes it)";
    }
    if (why != NULL) {
        design_note_skipped(d, "dense was left out: %s.", why);
        return DPMF_OK;
    }
    o.tolerance = fmax(o.tolerance, 1e-3);
    TRY(design_federated_optimum(d, DPMF_FAMILY_DENSE, f->made_for[0], &o, &s));
    return s == NULL ? DPMF_OK : design_federated_take(d, f, s, "dense, optimal for the least separation", &kept);
}
