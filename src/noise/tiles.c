/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All threads together make a pass over the tiles of a stream. A tile whose turn is due makes its rows, and while they are
 * in the cache the row of this step is emitted from them; the other tiles emit rows that they made before. Every tile is
 * emitted once per step, for any number of passes.
 */

#include "noise/plan.h"

#include <assert.h>

/* A thread takes about this many coordinates at a time: enough to hide the cost of taking them. */
static const int64_t TAKEN = 1 << 16;

noise_tile noise_tile_at(const noise_stream *s, int64_t index) {
    const noise_plan *plan = &s->plan;
    const int64_t start = index * plan->tile, count = noise_at_most(plan->tile, plan->padded - start);
    const int64_t size = plan->route->in_doubles ? (int64_t)sizeof(double) : (int64_t)plan->size;
    if (plan->stride > 0) return (noise_tile){plan->base + start, count, plan->stride, s->slots + start * size};
    return (noise_tile){plan->base + start, count, count, s->slots + plan->slots * start * size};
}

/* Writes x[0..count) to the coordinates from `at` on, counted from the first; *k and *before: the segment that has it. */
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

int64_t noise_turns_of(const noise_plan *plan) {
    const int64_t share = plan->threads > 1 ? 4 * plan->threads : 1; /* tiles that keep every thread busy */
    if (!plan->route->holds || plan->elsewhere || plan->tiles < share) return 1;
    return noise_at_most(plan->tiles / share, plan->ahead);
}

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

void noise_turns_begin(noise_stream *s) {
    const int64_t left = s->plan.strategy->steps - s->step;
    for (int64_t c = 0; c < s->plan.turns; c++) {
        assert(s->turn[c].made >= s->step);
        s->turn[c].rows = s->turn[c].made > s->step ? 0 : noise_at_most(rows_due(&s->plan, c, s->step), left);
    }
}

int64_t noise_turns_next(const noise_stream *s, int64_t below) {
    int64_t rows = 0;
    for (int64_t c = 0; c < s->plan.turns; c++)
        if (s->turn[c].rows < below && s->turn[c].rows > rows) rows = s->turn[c].rows;
    return rows;
}

void noise_turns_end(noise_stream *s) {
    int64_t least = INT64_MAX;
    for (int64_t c = 0; c < s->plan.turns; c++) {
        noise_turn *turn = &s->turn[c];
        turn->made += turn->rows;
        turn->rows = 0;
        if (turn->made < least) least = turn->made;
    }
    s->made = least;
}

void noise_turns_step(noise_stream *s) {
    s->step++;
    if (s->reached < s->step) s->reached = s->step;
    forget_old_rows(s);
}

void noise_turns_set(noise_stream *s, int64_t made) {
    for (int64_t c = 0; c < s->plan.turns; c++)
        s->turn[c] = (noise_turn){.made = made};
    s->made = s->level = made;
}

void noise_turns_make(noise_stream *s, int64_t rows) {
    noise_task job = {.stream = s, .rows = rows};
    assert(s->made == s->level);
    for (int64_t c = 0; c < s->plan.turns; c++)
        s->turn[c].rows = rows;
    s->plan.route->prepare(s, s->made, rows);
    noise_tiles_run(&job);
    noise_turns_end(s);
    s->level = s->made;
    forget_old_rows(s);
}

void noise_turns_level(noise_stream *s) {
    const noise_plan *plan = &s->plan;
    const int64_t made = most_made(s);
    for (int64_t c = 0; c < plan->turns && plan->route->holds; c++) {
        noise_turn *turn = &s->turn[c];
        noise_task job = {.stream = s, .rows = made - turn->made};
        assert(job.rows >= 0 && job.rows <= plan->ahead);
        if (job.rows == 0) continue;
        turn->rows = job.rows;
        plan->route->prepare(s, turn->made, job.rows);
        noise_tiles_run(&job);
        noise_turns_end(s);
    }
    s->level = s->made;
}

/* The routes share the following: the norms that scale a row, and the seeds that a step takes. */

double noise_route_factor(const noise_plan *plan, int64_t t) {
    const dpmf_strategy *s = plan->strategy;
    double factor = 1;
    while (s != plan->leaf) {
        const double *norms = NULL;
        int64_t stamps = 1;
        s = strategy_scaled(s, &norms);
        if (norms != NULL) factor *= norms[t];
        s = strategy_block(s, &stamps);
        t %= s->steps;
    }
    return factor;
}

/* Counts block by block, then step by step inside one: few families take other than one seed per step. */
uint64_t noise_route_seed_row(noise_stream *s, int64_t t) {
    const noise_plan *plan = &s->plan;
    int64_t local = t % plan->length, start = t - local;
    uint64_t before = (uint64_t)(t / plan->length) * (uint64_t)plan->leaf_rows;
    if (plan->leaf->ops->seeds == NULL) return before + (uint64_t)local;
    if (s->seed_step > t || s->seed_step < start) {
        s->seed_step = start;
        s->seed_row = before;
    }
    for (; s->seed_step < t; s->seed_step++)
        s->seed_row += (uint64_t)dpmf_strategy_seeds(plan->leaf, s->seed_step - start);
    return s->seed_row;
}
