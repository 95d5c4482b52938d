/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a candidate's noise stream costs: memory, which is known, and time, which is measured only where somebody asks
 * and no measurement of its kind answers already. Searches for candidates ask as much as the choice does.
 */
#include "design/design.h"

#include "noise/noise.h"

#include <string.h>

/* ---- memory ---- */

dpmf_status design_memory(const design_problem *p, const dpmf_strategy *strategy, uint64_t *bytes) {
    const noise_stream_options o = {.precision = p->options.precision, .count = p->options.dim};
    uint64_t all = 0, kept = 0;
    TRY(noise_stream_memory(strategy, &o, p->threads, &all, &kept));
    *bytes = all + sizeof(dpmf_noise);
    return DPMF_OK;
}

int design_fits(const design_problem *p, uint64_t bytes) {
    return p->options.memory == 0 || bytes <= p->options.memory;
}

/* ---- time ---- */

int design_same_group(const dpmf_candidate *a, const dpmf_candidate *b) {
    return strcmp(a->family, b->family) == 0 && a->sampling.kind == b->sampling.kind &&
           a->normals_per_number == b->normals_per_number;
}

/*
 * A stream's time grows with its buffers, about linearly. Where another one of the group was too slow, one with as many
 * buffers is too, and one that would have to be this much faster than the line says is not tried.
 */
static const double OFF_THE_LINE = 1.3;

static int is_hopeless(const design_problem *p, const dpmf_candidate *c) {
    for (int64_t i = 0; i < p->list.count; i++) {
        const dpmf_candidate *other = &p->list.entry[i].shown;
        if (other->overhead <= p->options.max_overhead || !design_same_group(c, other)) continue;
        double line = 1 + (other->overhead - 1) * (double)c->buffers / (double)other->buffers;
        if (c->buffers >= other->buffers || line > OFF_THE_LINE * p->options.max_overhead) return 1;
    }
    return 0;
}

dpmf_status design_ask_time(design_problem *p, int64_t i, int *enough) {
    design_entry *e = &p->list.entry[i];
    *enough = 1;
    if (p->options.no_bench) return DPMF_OK;
    if (e->shown.overhead == 0 && !e->too_slow) {
        e->too_slow = is_hopeless(p, &e->shown);
        if (!e->too_slow) {
            TRY(base_progress(&p->options.run, "measuring the noise", -1));
            TRY(design_bench(p, e->strategy, &e->shown.seconds_per_step, &e->shown.overhead));
        }
    }
    *enough = !e->too_slow && e->shown.overhead <= p->options.max_overhead;
    return DPMF_OK;
}
