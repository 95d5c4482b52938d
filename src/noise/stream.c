/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of W Z. This file creates it from its plan (noise/plan.c), moves it from step to step, and stores its rows and
 * its state in the caller's memory. The routes compute the rows: noise/feedback.c, noise/filter.c, noise/states.c,
 * noise/program.c and noise/steps.c.
 *
 * Nothing here computes: a row is a function of the seeds, of coefficients that are computed in double and rounded once,
 * and of a fixed order of additions. Tiles, look-ahead and threads determine when a number is made, never its value.
 */
#include "noise/stream.h"

#include "base/memory.h"
#include "noise/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- creating it ---- */

enum { ALLOCATION = 128 }; /* what base/process.c adds to an allocation for its header */

dpmf_status noise_stream_memory(const dpmf_strategy *strategy, const noise_stream_options *options, int threads,
                                uint64_t *all, uint64_t *buffers) {
    noise_plan plan;
    TRY(noise_plan_make(strategy, options, threads, &plan));
    size_t size = plan.route->in_doubles ? sizeof(double) : plan.size;
    if (all != NULL) *all = (uint64_t)plan.total_bytes + ALLOCATION;
    if (buffers != NULL) *buffers = plan.mapped ? 0 : (uint64_t)plan.slots * (uint64_t)plan.count * size;
    return DPMF_OK;
}

/* Requests large pages, where the system has them, since a tile's rows are on many small ones. It is only a hint. */
static void hint_large_pages(char *memory, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    const int64_t page = 1 << 21;
    char *start = memory + (page - (int64_t)((uintptr_t)memory % (uintptr_t)page)) % page;
    int64_t whole = (bytes - (start - memory)) / page * page;
    if (whole >= page && madvise(start, (size_t)whole, MADV_HUGEPAGE) != 0) return;
#else
    (void)memory, (void)bytes;
#endif
}

static void lay_out(noise_stream *s, char *mapped) {
    char *at = (char *)s + noise_aligned((int64_t)sizeof *s);
    s->turn = (noise_turn *)at;
    at += s->plan.turn_bytes;
    s->shared = at;
    at += s->plan.shared_bytes;
    s->scratch = at;
    at += s->plan.scratch_bytes * s->plan.threads;
    s->slots = s->plan.mapped ? mapped : at;
}

dpmf_status noise_stream_create(const dpmf_strategy *strategy, const crypto_seed *seed,
                                const noise_stream_options *options, base_pool *pool, noise_stream **out) {
    noise_plan plan;
    noise_stream *s = NULL;
    char *mapped = NULL;
    dpmf_status status = DPMF_OK;
    if (seed == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "noise stream: the seed is NULL");
    TRY(noise_plan_make(strategy, options, pool == NULL ? 1 : base_pool_threads(pool), &plan));
    TRY(base_alloc(plan.total_bytes, 1, "a noise stream", (void **)&s));
    s->plan = plan;
    if (plan.mapped) TRY_DONE(noise_scratch_map(options->scratch, plan.slot_bytes, &mapped));
    lay_out(s, mapped);
    if (!plan.mapped && !plan.elsewhere) hint_large_pages(s->slots, plan.slot_bytes);
    s->seed = seed;
    s->precision = options->precision;
    s->kernels = s->precision == DPMF_FLOAT32 ? &kernels_combine_get()->single : &kernels_combine_get()->full;
    s->wholes = kernels_whole_get();
    s->pool = pool;
    if (options->maker != NULL) s->maker = *options->maker;
    s->owner = getpid();
    if (plan.route->start != NULL) TRY_DONE(plan.route->start(s));
    *out = s;
    s = NULL;
done:
    noise_stream_free(s);
    return status;
}

void noise_stream_free(noise_stream *s) {
    if (s == NULL) return;
    if (s->plan.mapped && s->slots != NULL) {
        if (s->owner == getpid()) crypto_wipe(s->slots, (size_t)s->plan.slot_bytes);
        noise_scratch_unmap(s->slots, s->plan.slot_bytes);
    }
    crypto_wipe(s, (size_t)s->plan.total_bytes);
    base_free(s);
}

/* ---- rows ---- */

dpmf_status noise_check_segments(int64_t count, int64_t segments, const noise_segment *segment) {
    int64_t sum = 0;
    if (segments < 0 || (segments > 0 && segment == NULL))
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " segments, accepted 0 or more, and their list", segments);
    for (int64_t i = 0; i < segments; i++) {
        if (segment[i].count < 0 || segment[i].count > count - sum)
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "segment %" PRId64 " has count %" PRId64 ", accepted 0 to %" PRId64
                             ": what is left of a row of %" PRId64,
                             i, segment[i].count, count - sum, count);
        if (segment[i].memory == NULL && segment[i].count > 0)
            return base_fail(DPMF_ERROR_ARGUMENT, "segment %" PRId64 " is NULL", i);
        sum += segment[i].count;
    }
    if (sum != count)
        return base_fail(DPMF_ERROR_ARGUMENT, "the segments have %" PRId64 " numbers in total, accepted: %" PRId64, sum,
                         count);
    return DPMF_OK;
}

dpmf_status noise_stream_emit(noise_stream *s, double scale, noise_how how, int64_t segments,
                              const noise_segment *segment) {
    int64_t steps = s->plan.strategy->steps;
    if (s->step >= steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld: the mechanism has %lld steps",
                         (long long)s->step, (long long)(steps - 1), (long long)steps);
    TRY(noise_check_segments(s->plan.count, segments, segment));
    noise_task job = {.stream = s, .emit = 1, .how = how, .scale = scale, .segments = segments, .segment = segment};
    assert(s->step <= s->made);
    noise_turns_begin(s);
    int64_t rows = noise_turns_next(s, INT64_MAX);
    while (!job.rest) { /* one pass for each number of rows that are due; mostly there is one */
        const int64_t fewer = noise_turns_next(s, rows);
        job.rows = rows;
        job.rest = fewer == 0;
        if (rows > 0) s->plan.route->prepare(s, s->step, rows);
        noise_tiles_run(&job);
        rows = fewer;
    }
    noise_turns_end(s);
    noise_turns_step(s);
    return DPMF_OK;
}

int64_t noise_stream_step(const noise_stream *s) {
    return s->step;
}

/* ---- rows that are made elsewhere (noise/external_rows.c) ---- */

int64_t noise_stream_seeds(const noise_stream *s) {
    return s->plan.seeds;
}

dpmf_status noise_stream_recipe(noise_stream *s, int64_t t, uint64_t *seed, dpmf_recipe *out) {
    const noise_plan *plan = &s->plan;
    noise_recipe made = {.seed = seed};
    if (t < 0 || t >= plan->strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %" PRId64 ", accepted 0 to %" PRId64, t, plan->strategy->steps - 1);
    plan->route->prepare(s, t, 1);
    plan->route->recipe(s, t, &made);
    assert(made.seeds <= plan->seeds);
    *out = (dpmf_recipe){.kind = made.kind,
                         .start = plan->route->has_state ? t - t % plan->length : t,
                         .buffers = plan->route->has_state ? plan->slots : 0,
                         .seeds = made.seeds,
                         .weights = made.weights,
                         .seed = seed,
                         .weight = made.weight};
    return DPMF_OK;
}

/* ---- going to any step ---- */

/* Rows that are fed back are read only where they exist; buffers begin at 0. */
static void restart(noise_stream *s, int64_t t) {
    if (!s->plan.route->holds) memset(s->slots, 0, (size_t)s->plan.slot_bytes);
    noise_turns_set(s, t);
    s->step = s->kept = s->reached = t;
}

/* Rows of a replay between two calls of the progress callback: as many as are made at once, but about 2^27 numbers. */
static int64_t replay_rows(const noise_plan *plan, int64_t left) {
    const int64_t most = ((int64_t)1 << 27) / plan->padded, group = KERNELS_COMBINE_ROWS;
    return noise_at_most(noise_at_most(plan->replay, most < group ? group : most), left);
}

dpmf_status noise_stream_seek(noise_stream *s, int64_t step, const dpmf_run *run) {
    const noise_plan *plan = &s->plan;
    if (step < 0 || step > plan->strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld", (long long)step,
                         (long long)plan->strategy->steps);
    if (plan->route->holds && plan->slots > 0 && step >= s->kept && step <= s->made) {
        s->step = step;
        return DPMF_OK;
    }
    if (!plan->route->has_state) {
        restart(s, step);
        return DPMF_OK;
    }
    int64_t start = step - step % plan->length; /* of its block; earlier steps have no effect */
    if (step < s->step || start > s->made) restart(s, start);
    int64_t from = s->made;
    noise_turns_level(s);
    while (s->made < step) {
        noise_turns_make(s, replay_rows(plan, (plan->route->holds ? plan->strategy->steps : step) - s->made));
        s->step = s->reached = noise_at_most(s->made, step);
        TRY(base_progress(run, "replaying noise", (double)(s->step - from) / (double)(step - from)));
    }
    s->step = s->reached = step;
    return DPMF_OK;
}
