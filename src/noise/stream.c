/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of W Z: made by its plan (noise/plan.c), its steps, where rows go, its state as bytes. How rows are computed
 * is in the routes: noise/banded.c, noise/filter.c, noise/blt.c, noise/tree.c and noise/steps.c.
 *
 * Nothing here computes: a row is a function of the seeds, of coefficients that are computed in double and rounded once,
 * and of a fixed order of additions. Tiles, look-ahead and threads decide when a number is made, never what it is.
 */
#include "noise/stream.h"

#include "base/memory.h"
#include "noise/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A thread takes about so many coordinates at a time: enough to hide what taking costs. */
static const int64_t TAKEN = 1 << 16;

/* ---- making it ---- */

enum { ALLOCATION = 128 }; /* what base/memory.c adds to an allocation for its header */

dpmf_status dpmf_i_noise_stream_memory(const dpmf_strategy *strategy, const dpmf_i_noise_stream_options *options,
                                       int threads, uint64_t *all, uint64_t *buffers) {
    dpmf_i_noise_plan plan;
    TRY(dpmf_i_noise_plan_make(strategy, options, threads, &plan));
    size_t size = plan.route->in_doubles ? sizeof(double) : plan.size;
    if (all != NULL) *all = (uint64_t)plan.total_bytes + ALLOCATION;
    if (buffers != NULL) *buffers = plan.mapped ? 0 : (uint64_t)plan.slots * (uint64_t)plan.count * size;
    return DPMF_OK;
}

/* Large pages for large memory, where the system has them: a tile's rows lie on many small ones. Only a hint. */
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

static void lay_out(dpmf_i_noise_stream *s, char *mapped) {
    char *at = (char *)s + dpmf_i_noise_aligned((int64_t)sizeof *s);
    s->shared = at;
    at += s->plan.shared_bytes;
    s->scratch = at;
    at += s->plan.scratch_bytes * s->plan.threads;
    s->slots = s->plan.mapped ? mapped : at;
}

dpmf_status dpmf_i_noise_stream_create(const dpmf_strategy *strategy, const dpmf_i_crypto_seed *seed,
                                       const dpmf_i_noise_stream_options *options, dpmf_i_base_pool *pool,
                                       dpmf_i_noise_stream **out) {
    dpmf_i_noise_plan plan;
    dpmf_i_noise_stream *s = NULL;
    char *mapped = NULL;
    dpmf_status status = DPMF_OK;
    if (seed == NULL) return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "noise stream: the seed is NULL");
    TRY(dpmf_i_noise_plan_make(strategy, options, pool == NULL ? 1 : dpmf_i_base_pool_threads(pool), &plan));
    TRY(dpmf_i_base_alloc(plan.total_bytes, 1, "a noise stream", (void **)&s));
    s->plan = plan;
    if (plan.mapped) TRY_DONE(dpmf_i_noise_scratch_map(options->scratch, plan.slot_bytes, &mapped));
    lay_out(s, mapped);
    if (!plan.mapped && !plan.elsewhere) hint_large_pages(s->slots, plan.slot_bytes);
    s->seed = seed;
    s->precision = options->precision;
    s->kernels =
        s->precision == DPMF_FLOAT32 ? &dpmf_i_kernels_combine_get()->single : &dpmf_i_kernels_combine_get()->full;
    s->wholes = dpmf_i_kernels_whole_get();
    s->pool = pool;
    if (options->maker != NULL) s->maker = *options->maker;
    s->owner = getpid();
    if (plan.route->start != NULL) TRY_DONE(plan.route->start(s));
    *out = s;
    s = NULL;
done:
    dpmf_i_noise_stream_free(s);
    return status;
}

void dpmf_i_noise_stream_free(dpmf_i_noise_stream *s) {
    if (s == NULL) return;
    if (s->plan.mapped && s->slots != NULL) {
        if (s->owner == getpid()) dpmf_i_crypto_wipe(s->slots, (size_t)s->plan.slot_bytes);
        dpmf_i_noise_scratch_unmap(s->slots, s->plan.slot_bytes);
    }
    dpmf_i_crypto_wipe(s, (size_t)s->plan.total_bytes);
    dpmf_i_base_free(s);
}

/* ---- work on tiles ---- */

typedef struct task {
    dpmf_i_noise_stream *stream;
    int64_t rows;  /* to make; 0: none */
    int64_t group; /* tiles at a time */
    int emit;
    dpmf_i_noise_how how;
    double scale;
    int64_t segments;
    const dpmf_i_noise_segment *segment;
} task;

static dpmf_i_noise_tile tile_at(const dpmf_i_noise_stream *s, int64_t index) {
    const dpmf_i_noise_plan *plan = &s->plan;
    int64_t start = index * plan->tile, slot_size = plan->slot_bytes / (plan->padded > 0 ? plan->padded : 1);
    return (dpmf_i_noise_tile){plan->base + start, dpmf_i_noise_at_most(plan->tile, plan->padded - start),
                               s->slots + start * slot_size};
}

/* x[0..count) goes to the coordinates from `at` on, counted from the first; *k and *before: the segment that has it. */
static void emit_part(const task *job, int64_t at, int64_t count, const char *x, int64_t *k, int64_t *before) {
    const dpmf_i_noise_stream *s = job->stream;
    size_t size = s->plan.size;
    while (count > 0) {
        while (*before + job->segment[*k].count <= at)
            *before += job->segment[(*k)++].count;
        int64_t inside = at - *before, part = dpmf_i_noise_at_most(count, job->segment[*k].count - inside);
        char *y = (char *)job->segment[*k].memory + (size_t)inside * size;
        if (job->how == DPMF_I_NOISE_ADD_WHOLE)
            s->wholes->add(part, (const double *)x, (int64_t *)y);
        else
            (job->how == DPMF_I_NOISE_ADD ? s->kernels->add : s->kernels->store)(part, job->scale, x, y);
        at += part, count -= part, x += (size_t)part * size;
    }
}

static void emit_tile(const task *job, const dpmf_i_noise_tile *tile, const char *row, int64_t *k, int64_t *before) {
    const dpmf_i_noise_plan *plan = &job->stream->plan;
    int64_t from = tile->start > plan->first ? tile->start : plan->first;
    int64_t to = dpmf_i_noise_at_most(tile->start + tile->count, plan->first + plan->count);
    emit_part(job, from - plan->first, to - from, row + (size_t)(from - tile->start) * plan->size, k, before);
}

static dpmf_status work(void *context, int64_t item, int worker) {
    const task *job = context;
    const dpmf_i_noise_stream *s = job->stream;
    const dpmf_i_noise_plan *plan = &s->plan;
    char *scratch = s->scratch + worker * plan->scratch_bytes;
    int64_t last = dpmf_i_noise_at_most((item + 1) * job->group, plan->tiles), k = 0, before = 0;
    for (int64_t i = item * job->group; i < last; i++) {
        dpmf_i_noise_tile tile = tile_at(s, i);
        if (job->rows > 0) plan->route->make(s, &tile, scratch, job->rows);
        if (job->emit) emit_tile(job, &tile, plan->route->row(s, &tile, scratch, s->step), &k, &before);
    }
    return DPMF_OK;
}

static void run_tiles(task *job) {
    const dpmf_i_noise_plan *plan = &job->stream->plan;
    int64_t most = dpmf_i_noise_round_up(TAKEN, plan->tile) / plan->tile, share = plan->tiles / (4 * plan->threads);
    job->group = dpmf_i_noise_at_most(share < 1 ? 1 : share, most);
    int64_t items = (plan->tiles + job->group - 1) / job->group;
    if (job->stream->pool == NULL || items <= 1) {
        for (int64_t item = 0; item < items; item++) {
            dpmf_status status = work(job, item, 0);
            assert(status == DPMF_OK), (void)status;
        }
    } else {
        dpmf_status status = dpmf_i_base_pool_run(job->stream->pool, items, work, job);
        assert(status == DPMF_OK), (void)status;
    }
}

/* Makes `rows` rows from s->made on, and emits row s->step if the task says so. */
static void advance_rows(task *job) {
    dpmf_i_noise_stream *s = job->stream;
    const dpmf_i_noise_plan *plan = &s->plan;
    if (job->rows > 0) {
        plan->route->prepare(s, s->made, job->rows);
        if (plan->route->holds && !plan->route->has_state) s->kept = s->made;
    }
    run_tiles(job);
    s->made += job->rows;
    if (plan->route->has_state && s->kept < s->made - plan->lags) s->kept = s->made - plan->lags;
}

dpmf_status dpmf_i_noise_check_segments(int64_t count, int64_t segments, const dpmf_i_noise_segment *segment) {
    int64_t sum = 0;
    if (segments < 0 || (segments > 0 && segment == NULL))
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " segments, accepted 0 or more, and their list",
                                segments);
    for (int64_t i = 0; i < segments; i++) {
        if (segment[i].count < 0 || segment[i].count > count - sum)
            return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT,
                                    "segment %" PRId64 " has count %" PRId64 ", accepted 0 to %" PRId64
                                    ": what is left of a row of %" PRId64,
                                    i, segment[i].count, count - sum, count);
        if (segment[i].memory == NULL && segment[i].count > 0)
            return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "segment %" PRId64 " is NULL", i);
        sum += segment[i].count;
    }
    if (sum != count)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT,
                                "the segments have %" PRId64 " numbers in total, accepted: %" PRId64, sum, count);
    return DPMF_OK;
}

dpmf_status dpmf_i_noise_stream_emit(dpmf_i_noise_stream *s, double scale, dpmf_i_noise_how how, int64_t segments,
                                     const dpmf_i_noise_segment *segment) {
    int64_t steps = s->plan.strategy->steps;
    if (s->step >= steps)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld: the mechanism has %lld steps",
                                (long long)s->step, (long long)(steps - 1), (long long)steps);
    TRY(dpmf_i_noise_check_segments(s->plan.count, segments, segment));
    task job = {.stream = s, .emit = 1, .how = how, .scale = scale, .segments = segments, .segment = segment};
    assert(s->step <= s->made);
    if (s->step == s->made) job.rows = dpmf_i_noise_at_most(s->plan.ahead, steps - s->made);
    advance_rows(&job);
    s->step++;
    return DPMF_OK;
}

int64_t dpmf_i_noise_stream_step(const dpmf_i_noise_stream *s) {
    return s->step;
}

/* ---- rows that are made elsewhere (noise/elsewhere.c) ---- */

int64_t dpmf_i_noise_stream_seeds(const dpmf_i_noise_stream *s) {
    return s->plan.seeds;
}

dpmf_status dpmf_i_noise_stream_recipe(dpmf_i_noise_stream *s, int64_t t, uint64_t *seed, dpmf_recipe *out) {
    const dpmf_i_noise_plan *plan = &s->plan;
    dpmf_i_noise_recipe made = {.seed = seed};
    if (t < 0 || t >= plan->strategy->steps)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "step %" PRId64 ", accepted 0 to %" PRId64, t,
                                plan->strategy->steps - 1);
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

/* ---- to any step ---- */

static void restart(dpmf_i_noise_stream *s, int64_t t) {
    memset(s->slots, 0, (size_t)s->plan.slot_bytes);
    s->step = s->made = s->kept = t;
}

dpmf_status dpmf_i_noise_stream_seek(dpmf_i_noise_stream *s, int64_t step, const dpmf_run *run) {
    const dpmf_i_noise_plan *plan = &s->plan;
    if (step < 0 || step > plan->strategy->steps)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld", (long long)step,
                                (long long)plan->strategy->steps);
    if (plan->route->holds && plan->slots > 0 && step >= s->kept && step <= s->made) {
        s->step = step;
        return DPMF_OK;
    }
    if (!plan->route->has_state) {
        s->step = s->made = s->kept = step;
        return DPMF_OK;
    }
    int64_t start = step - step % plan->length; /* of its block, before which nothing matters */
    if (step < s->step || start > s->made) restart(s, start);
    int64_t from = s->made;
    while (s->made < step) {
        int64_t left = plan->route->holds ? plan->strategy->steps - s->made : step - s->made;
        task job = {.stream = s, .rows = dpmf_i_noise_at_most(plan->replay, left)};
        advance_rows(&job);
        s->step = dpmf_i_noise_at_most(s->made, step);
        TRY(dpmf_i_base_progress(run, "replaying noise", (double)(s->step - from) / (double)(step - from)));
    }
    s->step = step;
    return DPMF_OK;
}

/* ---- the state as bytes: rows made so far where they run ahead, then slot after slot ---- */

static int64_t head_size(const dpmf_i_noise_stream *s) {
    return s->plan.route->holds ? (int64_t)sizeof(int64_t) : 0;
}

dpmf_i_noise_stream_layout dpmf_i_noise_stream_state_layout(const dpmf_i_noise_stream *s) {
    const dpmf_i_noise_plan *plan = &s->plan;
    if (!plan->route->has_state) return (dpmf_i_noise_stream_layout){0};
    int64_t size = plan->route->in_doubles ? (int64_t)sizeof(double) : (int64_t)plan->size;
    return (dpmf_i_noise_stream_layout){head_size(s), plan->slots, size};
}

int64_t dpmf_i_noise_stream_state_size(const dpmf_i_noise_stream *s) {
    const dpmf_i_noise_stream_layout of = dpmf_i_noise_stream_state_layout(s);
    return of.head + of.slots * s->plan.count * of.size;
}

static void copy_slots(const dpmf_i_noise_stream *s, uint8_t *bytes, int load) {
    const dpmf_i_noise_plan *plan = &s->plan;
    size_t size = plan->route->in_doubles ? sizeof(double) : plan->size;
    for (int64_t k = 0; k < plan->tiles; k++) {
        dpmf_i_noise_tile tile = tile_at(s, k);
        int64_t from = tile.start > plan->first ? tile.start : plan->first;
        int64_t to = dpmf_i_noise_at_most(tile.start + tile.count, plan->first + plan->count);
        for (int64_t j = 0; j < plan->slots; j++) {
            char *inside = tile.slots + (size_t)(j * tile.count + from - tile.start) * size;
            uint8_t *outside = bytes + (size_t)(j * plan->count + from - plan->first) * size;
            if (load)
                memcpy(inside, outside, (size_t)(to - from) * size);
            else
                memcpy(outside, inside, (size_t)(to - from) * size);
        }
    }
}

dpmf_status dpmf_i_noise_stream_state_save(const dpmf_i_noise_stream *s, uint8_t *bytes) {
    if (!s->plan.route->has_state) return DPMF_OK;
    if (s->plan.elsewhere) {
        int64_t made = 0;
        TRY(s->maker.read(s->maker.context, &made, bytes + head_size(s)));
        memcpy(bytes, &made, (size_t)head_size(s));
        return DPMF_OK;
    }
    memcpy(bytes, &s->made, (size_t)head_size(s));
    copy_slots(s, bytes + head_size(s), 0);
    return DPMF_OK;
}

dpmf_status dpmf_i_noise_stream_state_load(dpmf_i_noise_stream *s, int64_t step, const uint8_t *bytes) {
    const dpmf_i_noise_plan *plan = &s->plan;
    int64_t steps = plan->strategy->steps, made = step;
    if (step < 0 || step > steps)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld", (long long)step,
                                (long long)steps);
    if (!plan->route->has_state && plan->elsewhere) return s->maker.write(s->maker.context, step, step, NULL);
    if (!plan->route->has_state) return dpmf_i_noise_stream_seek(s, step, NULL);
    memcpy(&made, bytes, (size_t)head_size(s));
    if (made < step || made > steps || made - step > plan->lags)
        return dpmf_i_base_fail(DPMF_ERROR_FORMAT, "noise state: %lld rows made at step %lld, accepted %lld to %lld",
                                (long long)made, (long long)step, (long long)step,
                                (long long)dpmf_i_noise_at_most(step + plan->lags, steps));
    if (plan->elsewhere) return s->maker.write(s->maker.context, step, made, bytes + head_size(s));
    memset(s->slots, 0, (size_t)plan->slot_bytes);
    copy_slots(s, (uint8_t *)bytes + head_size(s), 1); /* only read */
    s->step = s->kept = step;
    s->made = made;
    return DPMF_OK;
}
