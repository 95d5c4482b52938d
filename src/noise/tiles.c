/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the tiles of a stream, by all threads: a tile whose turn it is makes its rows, and while they are in the
 * cache the row of this step is emitted from them; the other tiles emit what they have made before. Every tile is
 * emitted once in a step, whatever the number of passes.
 */
#include "noise/plan.h"

#include <assert.h>

/* A thread takes about so many coordinates at a time: enough to hide what taking costs. */
static const int64_t TAKEN = 1 << 16;

noise_tile noise_tile_at(const noise_stream *s, int64_t index) {
    const noise_plan *plan = &s->plan;
    const int64_t start = index * plan->tile, count = noise_at_most(plan->tile, plan->padded - start);
    const int64_t size = plan->route->in_doubles ? (int64_t)sizeof(double) : (int64_t)plan->size;
    if (plan->stride > 0) return (noise_tile){plan->base + start, count, plan->stride, s->slots + start * size};
    return (noise_tile){plan->base + start, count, count, s->slots + plan->slots * start * size};
}

/* x[0..count) goes to the coordinates from `at` on, counted from the first; *k and *before: the segment that has it. */
static void emit_part(const noise_task *job, int64_t at, int64_t count, const char *x, int64_t *k, int64_t *before) {
    const noise_stream *s = job->stream;
    size_t size = s->plan.size;
    while (count > 0) {
        while (*before + job->segment[*k].count <= at)
            *before += job->segment[(*k)++].count;
        int64_t inside = at - *before, part = noise_at_most(count, job->segment[*k].count - inside);
        char *y = (char *)job->segment[*k].memory + (size_t)inside * size;
        if (job->how == NOISE_ADD_WHOLE)
            s->wholes->add(part, (const double *)x, (int64_t *)y);
        else
            (job->how == NOISE_ADD ? s->kernels->add : s->kernels->store)(part, job->scale, x, y);
        at += part, count -= part, x += (size_t)part * size;
    }
}

static void emit_tile(const noise_task *job, const noise_tile *tile, const char *row, int64_t *k, int64_t *before) {
    const noise_plan *plan = &job->stream->plan;
    int64_t from = tile->start > plan->first ? tile->start : plan->first;
    int64_t to = noise_at_most(tile->start + tile->count, plan->first + plan->count);
    emit_part(job, from - plan->first, to - from, row + (size_t)(from - tile->start) * plan->size, k, before);
}

static dpmf_status work(void *context, int64_t item, int worker) {
    const noise_task *job = context;
    const noise_stream *s = job->stream;
    const noise_plan *plan = &s->plan;
    char *scratch = s->scratch + worker * plan->scratch_bytes;
    int64_t last = noise_at_most((item + 1) * job->group, plan->tiles), k = 0, before = 0;
    for (int64_t i = item * job->group; i < last; i++) {
        const int64_t due = s->turn[i * plan->turns / plan->tiles].rows;
        if (due != job->rows && !(due == 0 && job->rest)) continue;
        noise_tile tile = noise_tile_at(s, i);
        if (due > 0) plan->route->make(s, &tile, scratch, due);
        if (job->emit) emit_tile(job, &tile, plan->route->row(s, &tile, scratch, s->step), &k, &before);
    }
    return DPMF_OK;
}

void noise_tiles_run(noise_task *job) {
    const noise_plan *plan = &job->stream->plan;
    int64_t most = noise_round_up(TAKEN, plan->tile) / plan->tile, share = plan->tiles / (4 * plan->threads);
    job->group = noise_at_most(share < 1 ? 1 : share, most);
    int64_t items = (plan->tiles + job->group - 1) / job->group;
    if (job->stream->pool == NULL || items <= 1) {
        for (int64_t item = 0; item < items; item++) {
            dpmf_status status = work(job, item, 0);
            assert(status == DPMF_OK), (void)status;
        }
    } else {
        dpmf_status status = base_pool_run(job->stream->pool, items, work, job);
        assert(status == DPMF_OK), (void)status;
    }
}
