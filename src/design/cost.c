/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file computes the cost of a candidate's noise stream. Memory follows from the plan of the stream, and so does
 * the time of a row in units of a row of independent noise, which makes one normal number for each of its numbers:
 *
 *     overhead = normals + TOUCHED x numbers read or written
 *
 * The constant is that of one reference machine, so the answer is the same on every machine and at every load.
 * docs/design.md has the measurements behind it. With `measure` a real stream is timed instead (design/bench.c), unless the
 * model is so far above the limit that no measurement would change the choice.
 */
#include "design/design.h"

static const double TOUCHED = 0.06; /* median of the measurements: 0.032 ns, where a normal number takes 0.533 ns */
static const double HOPELESS = 3;   /* times the limit: not measured */

double design_model(noise_work work) {
    return work.normals + TOUCHED * work.touched;
}

dpmf_status design_cost(const dpmf_design *d, const dpmf_strategy *strategy, uint64_t *bytes, double *overhead) {
    const noise_stream_options o = {.precision = d->options.precision, .count = d->options.dim};
    noise_plan plan;
    uint64_t all = 0;
    TRY(noise_stream_memory(strategy, &o, d->threads, &all, NULL));
    TRY(noise_plan_make(strategy, &o, d->threads, &plan));
    *bytes = all + sizeof(dpmf_noise);
    *overhead = design_model(plan.work);
    return DPMF_OK;
}

int design_fits(const dpmf_design *d, uint64_t bytes) {
    return d->options.memory == 0 || bytes <= d->options.memory;
}

dpmf_status design_ask_time(dpmf_design *d, int64_t i, int *enough) {
    dpmf_candidate *c = &d->candidates[i].info;
    if (d->options.measure && c->seconds_per_step == 0 && c->overhead <= HOPELESS * d->options.max_overhead) {
        TRY(base_progress(&d->options.run, "measuring the noise", -1));
        TRY(design_bench(d, d->candidates[i].strategy, &c->seconds_per_step, &c->overhead));
    }
    *enough = c->overhead <= d->options.max_overhead;
    return DPMF_OK;
}
