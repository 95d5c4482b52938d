/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of W Z. This file creates it from its plan (noise/plan.c), moves it from step to step, and stores its rows and
 * its state in the caller's memory. The routes compute the rows: noise/routes.c and noise/plan.c.
 *
 * Nothing here computes: a row is a function of the seeds, of coefficients that are computed in double and rounded once,
 * and of a fixed order of additions. Tiles, look-ahead and threads determine when a number is made, never its value.
 */
#include "noise/stream.h"
#include "base/memory.h"
#include "noise/plan.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

dpmf_status noise_stream_memory(const dpmf_strategy *strategy, const noise_stream_options *options, int threads,
                                uint64_t *all, uint64_t *buffers) {
    noise_plan plan;
    TRY(noise_plan_make(strategy, options, threads, &plan));
    size_t size = plan.route->in_doubles ? sizeof(double) : plan.size;
    if (all != NULL) *all = (uint64_t)plan.total_bytes + NOISE_ALLOCATION;
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

/*
 * Maps a file for rows made ahead (Pillutla et al. 2025, Section 4.4.5), for its owner alone and without a name, so that a
 * crash leaves nothing. Its space is reserved first: a full disk is an error here and not a fault later.
 */
static dpmf_status map_scratch(const char *directory, int64_t bytes, char **out) {
    static const char name[] = "/dpmf-noise-XXXXXX";
    char *path = NULL;
    size_t length = strlen(directory) + sizeof name;
    TRY(base_alloc((int64_t)length, 1, "the name of a scratch file", (void **)&path));
    snprintf(path, length, "%s%s", directory, name);
    int file = mkstemp(path);
    dpmf_status status = DPMF_OK;
    if (file < 0) {
        status = base_fail(DPMF_ERROR_IO, "scratch directory %s: no file can be made in it (%s)", directory,
                           strerror(errno));
    } else {
        unlink(path);
        const int error = posix_fallocate(file, 0, (off_t)bytes);
        void *memory = error == 0 ? mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
        if (error != 0)
            status = base_fail(DPMF_ERROR_IO, "scratch directory %s: no room for %lld bytes (%s)", directory,
                               (long long)bytes, strerror(error));
        else if (memory == MAP_FAILED)
            status = base_fail(DPMF_ERROR_IO, "scratch directory %s: %lld bytes cannot be mapped (%s)", directory,
                               (long long)bytes, strerror(errno));
        else
            *out = memory;
        close(file); /* the mapping keeps the file */
    }
    base_free(path);
    return status;
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
    if (plan.mapped) TRY_DONE(map_scratch(options->scratch, plan.slot_bytes, &mapped));
    char *at = (char *)s + noise_aligned((int64_t)sizeof *s);
    s->turn = (noise_turn *)at;
    s->shared = at += plan.turn_bytes;
    s->scratch = at += plan.shared_bytes;
    s->slots = plan.mapped ? mapped : at + plan.scratch_bytes * plan.threads;
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
        munmap(s->slots, (size_t)s->plan.slot_bytes);
    }
    crypto_wipe(s, (size_t)s->plan.total_bytes);
    base_free(s);
}

/* One pass of all threads: a tile whose turn is due makes its rows, and every tile emits its row of the step, once. */
typedef struct task {
    noise_stream *stream;
    int64_t rows;  /* the turns that make this many rows make them; 0: none */
    int64_t group; /* tiles at a time */
    int rest;      /* 1: tiles that make no rows take part too */
    int emit;      /* row `step` */
    noise_how how;
    double scale;
    int64_t segments;
    const noise_segment *segment;
} task;

/* A thread takes about this many coordinates at a time: enough to hide the cost of taking them. */
static const int64_t TAKEN = 1 << 16;

static noise_tile tile_at(const noise_stream *s, int64_t index) {
    const noise_plan *plan = &s->plan;
    const int64_t start = index * plan->tile, count = noise_at_most(plan->tile, plan->padded - start);
    const int64_t size = plan->route->in_doubles ? (int64_t)sizeof(double) : (int64_t)plan->size;
    if (plan->stride > 0) return (noise_tile){plan->base + start, count, plan->stride, s->slots + start * size};
    return (noise_tile){plan->base + start, count, count, s->slots + plan->slots * start * size};
}

/* Writes x[0..count) to the coordinates from `at` on, counted from the first; *k and *before: the segment that has it. */
static void emit_part(const task *job, int64_t at, int64_t count, const char *x, int64_t *k, int64_t *before) {
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

static void emit_tile(const task *job, const noise_tile *tile, const char *row, int64_t *k, int64_t *before) {
    const noise_plan *plan = &job->stream->plan;
    int64_t from = tile->start > plan->first ? tile->start : plan->first;
    int64_t to = noise_at_most(tile->start + tile->count, plan->first + plan->count);
    emit_part(job, from - plan->first, to - from, row + (size_t)(from - tile->start) * plan->size, k, before);
}

static dpmf_status work(void *context, int64_t item, int worker) {
    const task *job = context;
    const noise_stream *s = job->stream;
    const noise_plan *plan = &s->plan;
    char *scratch = s->scratch + worker * plan->scratch_bytes;
    int64_t last = noise_at_most((item + 1) * job->group, plan->tiles), k = 0, before = 0;
    for (int64_t i = item * job->group; i < last; i++) {
        const int64_t due = s->turn[i * plan->turns / plan->tiles].rows;
        if (due != job->rows && !(due == 0 && job->rest)) continue;
        noise_tile tile = tile_at(s, i);
        if (due > 0) plan->route->make(s, &tile, scratch, due);
        if (job->emit) emit_tile(job, &tile, plan->route->row(s, &tile, scratch, s->step), &k, &before);
    }
    return DPMF_OK;
}

static void run_tiles(task *job) {
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

/*
 * This determines which tiles make rows ahead at which step. A tile that makes `ahead` rows at a time is read and written
 * once per `ahead` steps; but if all tiles did so at the same step, that step would take as long as `ahead` of them, and
 * the first one would also wait for all memory of the stream. So the tiles are cut into `turns`, runs of neighbours, and
 * turn c is due at the steps t with
 *
 *     t mod ahead = floor(c ahead / turns),
 *
 * one after the other: every step then takes about the same time. A turn that has no row left before it is due (at
 * the start, after a seek or a saved state) makes few: enough to be worth reading the rows that they depend on, none of
 * which exist at the start. The order in which tiles make rows never changes the rows.
 *
 * A saved state has the same rows of every tile: those of a turn that was due at the step before. Their number does not
 * depend on tiles or threads, since the states of shards are combined.
 */
/* Sizes between a row and `ahead`: a group of the kernels, and a few of them. */
static const int64_t FEW[] = {16, KERNELS_COMBINE_ROWS, 1};
enum { PAYS = 3 }; /* making a row takes about as long as reading this many */

/* The number of rows that turn c makes at step t, if it has made none from t on. */
static int64_t rows_due(const noise_plan *plan, int64_t c, int64_t t) {
    const int64_t due = c * plan->ahead / plan->turns;
    const int64_t left = plan->turns == 1 ? 0 : (due - t % plan->ahead + plan->ahead) % plan->ahead;
    const int64_t past = noise_at_most(t % plan->length, plan->lags);
    if (left == 0) return plan->ahead;
    int k = 0;
    while (FEW[k] > 1 && (FEW[k] > left || PAYS * FEW[k] > past))
        k++;
    return FEW[k];
}

/* The largest number of rows that a turn may have made; each row ahead takes the place of an old one. */
static int64_t most_made(const noise_stream *s) {
    if (s->reached <= s->level) return s->level;
    return noise_at_most(s->reached - 1 + s->plan.ahead, s->plan.strategy->steps);
}

static void forget_old_rows(noise_stream *s) {
    const int64_t oldest = most_made(s) - s->plan.slots;
    if (s->kept < oldest) s->kept = oldest;
}

/* The largest number of rows below this that a turn makes. */
static int64_t turns_next(const noise_stream *s, int64_t below) {
    int64_t rows = 0;
    for (int64_t c = 0; c < s->plan.turns; c++)
        if (s->turn[c].rows < below && s->turn[c].rows > rows) rows = s->turn[c].rows;
    return rows;
}

static void turns_end(noise_stream *s) {
    int64_t least = INT64_MAX;
    for (int64_t c = 0; c < s->plan.turns; c++) {
        noise_turn *turn = &s->turn[c];
        turn->made += turn->rows;
        turn->rows = 0;
        if (turn->made < least) least = turn->made;
    }
    s->made = least;
}

/* All have made the rows before `made`. */
static void turns_set(noise_stream *s, int64_t made) {
    for (int64_t c = 0; c < s->plan.turns; c++)
        s->turn[c] = (noise_turn){.made = made};
    s->made = s->level = made;
}

/* All make as many rows as one may have. */
static void turns_level(noise_stream *s) {
    const noise_plan *plan = &s->plan;
    const int64_t made = most_made(s);
    for (int64_t c = 0; c < plan->turns && plan->route->holds; c++) {
        noise_turn *turn = &s->turn[c];
        task job = {.stream = s, .rows = made - turn->made};
        assert(job.rows >= 0 && job.rows <= plan->ahead);
        if (job.rows == 0) continue;
        turn->rows = job.rows;
        plan->route->prepare(s, turn->made, job.rows);
        run_tiles(&job);
        turns_end(s);
    }
    s->level = s->made;
}

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
    task job = {.stream = s, .emit = 1, .how = how, .scale = scale, .segments = segments, .segment = segment};
    assert(s->step <= s->made);
    for (int64_t c = 0; c < s->plan.turns; c++) {
        assert(s->turn[c].made >= s->step);
        s->turn[c].rows =
            s->turn[c].made > s->step ? 0 : noise_at_most(rows_due(&s->plan, c, s->step), steps - s->step);
    }
    int64_t rows = turns_next(s, INT64_MAX);
    while (!job.rest) { /* one pass for each number of rows that are due; mostly there is one */
        const int64_t fewer = turns_next(s, rows);
        job.rows = rows;
        job.rest = fewer == 0;
        if (rows > 0) s->plan.route->prepare(s, s->step, rows);
        run_tiles(&job);
        rows = fewer;
    }
    turns_end(s);
    s->step++;
    if (s->reached < s->step) s->reached = s->step;
    forget_old_rows(s);
    return DPMF_OK;
}

int64_t noise_stream_step(const noise_stream *s) {
    return s->step;
}

/* ---- rows that are made elsewhere (noise/noise.c) ---- */

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
    turns_set(s, t);
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
    turns_level(s);
    while (s->made < step) {
        /* All, which are level, make `rows` rows. */
        int64_t rows = replay_rows(plan, (plan->route->holds ? plan->strategy->steps : step) - s->made);
        task job = {.stream = s, .rows = rows};
        assert(s->made == s->level);
        for (int64_t c = 0; c < s->plan.turns; c++)
            s->turn[c].rows = rows;
        s->plan.route->prepare(s, s->made, rows);
        run_tiles(&job);
        turns_end(s);
        s->level = s->made;
        forget_old_rows(s);
        s->step = s->reached = noise_at_most(s->made, step);
        TRY(base_progress(run, "replaying noise", (double)(s->step - from) / (double)(step - from)));
    }
    s->step = s->reached = step;
    return DPMF_OK;
}

/* ---- the state as bytes: the number of rows made, if rows are made ahead, and then the slots in order ---- */

static int64_t head_size(const noise_stream *s) {
    return s->plan.route->holds ? (int64_t)sizeof(int64_t) : 0;
}

noise_stream_layout noise_stream_state_layout(const noise_stream *s) {
    const noise_plan *plan = &s->plan;
    if (!plan->route->has_state) return (noise_stream_layout){0};
    int64_t size = plan->route->in_doubles ? (int64_t)sizeof(double) : (int64_t)plan->size;
    return (noise_stream_layout){head_size(s), plan->slots, size};
}

int64_t noise_stream_state_size(const noise_stream *s) {
    const noise_stream_layout of = noise_stream_state_layout(s);
    return of.head + of.slots * s->plan.count * of.size;
}

static void copy_slots(const noise_stream *s, uint8_t *bytes, int load) {
    const noise_plan *plan = &s->plan;
    size_t size = plan->route->in_doubles ? sizeof(double) : plan->size;
    for (int64_t k = 0; k < plan->tiles; k++) {
        noise_tile tile = tile_at(s, k);
        int64_t from = tile.start > plan->first ? tile.start : plan->first;
        int64_t to = noise_at_most(tile.start + tile.count, plan->first + plan->count);
        for (int64_t j = 0; j < plan->slots; j++) {
            char *inside = tile.slots + (size_t)(j * tile.stride + from - tile.start) * size;
            uint8_t *outside = bytes + (size_t)(j * plan->count + from - plan->first) * size;
            if (load)
                memcpy(inside, outside, (size_t)(to - from) * size);
            else
                memcpy(outside, inside, (size_t)(to - from) * size);
        }
    }
}

dpmf_status noise_stream_state_save(noise_stream *s, uint8_t *bytes) {
    if (!s->plan.route->has_state) return DPMF_OK;
    if (s->plan.elsewhere) {
        int64_t made = 0;
        TRY(s->maker.read(s->maker.context, &made, bytes + head_size(s)));
        memcpy(bytes, &made, (size_t)head_size(s));
        return DPMF_OK;
    }
    turns_level(s);
    memcpy(bytes, &s->made, (size_t)head_size(s));
    copy_slots(s, bytes + head_size(s), 0);
    return DPMF_OK;
}

dpmf_status noise_stream_state_load(noise_stream *s, int64_t step, const uint8_t *bytes) {
    const noise_plan *plan = &s->plan;
    int64_t steps = plan->strategy->steps, made = step;
    if (step < 0 || step > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld", (long long)step, (long long)steps);
    if (!plan->route->has_state && plan->elsewhere) return s->maker.write(s->maker.context, step, step, NULL);
    if (!plan->route->has_state) return noise_stream_seek(s, step, NULL);
    memcpy(&made, bytes, (size_t)head_size(s));
    if (made < step || made > steps || made - step > plan->lags)
        return base_fail(DPMF_ERROR_FORMAT, "noise state: %lld rows made at step %lld, accepted %lld to %lld",
                         (long long)made, (long long)step, (long long)step,
                         (long long)noise_at_most(step + plan->lags, steps));
    if (plan->elsewhere) return s->maker.write(s->maker.context, step, made, bytes + head_size(s));
    memset(s->slots, 0, (size_t)plan->slot_bytes);
    copy_slots(s, (uint8_t *)bytes + head_size(s), 1); /* only read */
    turns_set(s, made);
    s->step = s->kept = s->reached = step;
    return DPMF_OK;
}
