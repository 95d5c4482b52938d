/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a candidate's noise stream costs. Memory follows from the plan of the stream, and so does the time of a row in units
 * of a row of independent noise, which makes one normal number for each of its numbers:
 *
 *     overhead = normals + TOUCHED x numbers read or written
 *
 * The constant is that of one reference machine, so the answer is the same on every machine and at every load.
 * docs/design.md has the measurements behind it. With `measure` a real stream is timed instead (design/bench.c), unless the
 * model is so far above the limit that no measurement would change the choice.
 */
#include "design/design.h"

#include "noise/noise.h"

#include <string.h>

static const double TOUCHED = 0.06; /* median of the measurements: 0.032 ns, where a normal number takes 0.533 ns */
static const double HOPELESS = 3;   /* times the limit: not measured */

double design_model(noise_work work) {
    return work.normals + TOUCHED * work.touched;
}

dpmf_status design_cost(const design_problem *p, const dpmf_strategy *strategy, uint64_t *bytes, double *overhead) {
    const noise_stream_options o = {.precision = p->options.precision, .count = p->options.dim};
    noise_plan plan;
    uint64_t all = 0;
    TRY(noise_stream_memory(strategy, &o, p->threads, &all, NULL));
    TRY(noise_plan_make(strategy, &o, p->threads, &plan));
    *bytes = all + sizeof(dpmf_noise);
    *overhead = design_model(plan.work);
    return DPMF_OK;
}

int design_fits(const design_problem *p, uint64_t bytes) {
    return p->options.memory == 0 || bytes <= p->options.memory;
}

int design_same_group(const dpmf_candidate *a, const dpmf_candidate *b) {
    return strcmp(a->family, b->family) == 0 && a->sampling.kind == b->sampling.kind &&
           a->normals_per_number == b->normals_per_number;
}

dpmf_status design_ask_time(design_problem *p, int64_t i, int *enough) {
    design_entry *e = &p->list.entry[i];
    dpmf_candidate *c = &e->shown;
    if (p->options.measure && c->seconds_per_step == 0 && c->overhead <= HOPELESS * p->options.max_overhead) {
        TRY(base_progress(&p->options.run, "measuring the noise", -1));
        TRY(design_bench(p, e->strategy, &c->seconds_per_step, &c->overhead));
    }
    *enough = c->overhead <= p->options.max_overhead;
    return DPMF_OK;
}
