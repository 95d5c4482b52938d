/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a stream determines which route makes its rows, how large its tiles are, and where everything is in memory.
 * Creating a stream and computing its memory use the same plan, so the computed size is exact. There is one allocation, and
 * none after it:
 *
 *     | stream | turns | coefficients, for all threads | scratch of each thread | slots: slots x coordinates |
 *
 * The slots are the memory that grows with the model. Everything else is O(tile), O(bands x look-ahead), or for the
 * strategies without a stream their W, steps x seeds.
 */
#include "noise/plan.h"
#include "strategy/strategy.h"

#include <string.h>

/* A tile has at most this many coordinates; more would only use more cache. */
enum { TILE_MAX = 4096 };

/*
 * Streams with a few buffers that are updated at every step, in one pass over seed, buffers and output:
 *
 *     BLT (families/blt)         y = z - sum_j alpha_j m_j,   m_j <- (m_j - gap_j m_j) + y
 *     TV-BLT (families/tvblt)    y = diagonal z + sum_j x_j,  x_j <- x_j + ((keep_j - 1) x_j + gain_j z),  or of order 2
 *
 * Decays that matter over n steps are about 1/n from 1. Rounded to float, a decay that is 1 - 1e-7 would be 1 or 1 -
 * 6e-8; its distance from 1 is held to full relative precision instead, and the buffer itself is what is rounded.
 *
 * Rows are not made ahead: they would need separate memory. Without a row to emit (a replay), a tile's buffers stay
 * in the cache for many steps. With one, buffers that no cache holds are read and written at every step, which takes as
 * long as making the seeds, and seeds need no memory: so the next tile's buffers are prefetched while the seeds of this
 * one are made, a few at a time, since a processor has room for about two dozen memory requests.
 */
/* The steps of a replay during which a tile stays in the cache. */
enum { REPLAY = 64 };

/* The seed and buffers of a tile should stay in the first-level cache, 32 KB or more. */
static const int64_t FIRST_CACHE = 26000;

static int64_t weight_count(const noise_plan *plan) {
    return 2 * plan->slots + 2; /* a BLT has one less, unless it is exact */
}

typedef struct shared {
    int64_t step;
    uint64_t seed;
} shared;

static int64_t head_bytes(void) {
    return noise_aligned((int64_t)sizeof(shared));
}

static char *weights_at(const noise_stream *s, int64_t row) {
    return s->shared + head_bytes() + (size_t)(row * weight_count(&s->plan)) * s->plan.size;
}

static void prepare_states(noise_stream *s, int64_t t, int64_t rows) {
    const noise_plan *plan = &s->plan;
    shared *head = (shared *)s->shared;
    head->step = t;
    head->seed = noise_route_seed_row(s, t); /* one per step, also from one block to the next */
    for (int64_t r = 0; r < rows; r++)
        plan->states.fill(s, (t + r) % plan->length, noise_route_factor(plan, t + r), weights_at(s, r));
}

/* The factor of an exact row's own seed. */
static double own_weight(const noise_stream *s, int64_t r) {
    const double *weight = (const double *)weights_at(s, r);
    return s->plan.states.kernel == DPMF_RECIPE_BLT ? weight[2 * s->plan.slots]
                                                    : weight[0] * weight[1 + 2 * s->plan.slots];
}

/* Buffers of NO_CACHE bytes fit no cache. SEEDS are made at a time, with their share of the next buffers: 32 lines. */
static const int64_t NO_CACHE = 1 << 24, SEEDS = 128;
enum { LINE = 64 };

/* Makes the seeds of a row and prefetches the buffers of the next tile, if there is one: they follow this tile's. */
static void fill_and_fetch(const noise_stream *s, const noise_tile *tile, uint64_t row, char *out) {
    const noise_plan *plan = &s->plan;
    const int64_t size = (int64_t)plan->size, bytes = plan->slots * tile->count * size;
    const int last = tile->start + tile->count >= plan->base + plan->padded;
    if (plan->slot_bytes < NO_CACHE || last) {
        noise_fill_seed(s, tile, row, out);
        return;
    }
    noise_tile part = {.start = tile->start};
    for (int64_t at = 0, asked = 0; at < tile->count; at += part.count) {
        part.start = tile->start + at;
        part.count = noise_at_most(SEEDS, tile->count - at);
        for (const int64_t to = bytes / tile->count * (at + part.count); asked < to; asked += LINE)
            __builtin_prefetch(tile->slots + bytes + asked, 1);
        noise_fill_seed(s, &part, row, out + at * size);
    }
}

static void make_scratch_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const noise_plan *plan = &s->plan;
    const shared *head = (const shared *)s->shared;
    const dpmf_recipe_kind kernel = plan->states.kernel;
    kernels_recursion_job job = {.count = tile->count,
                                 .stride = tile->count,
                                 .states = plan->states.nodes,
                                 .state = tile->slots,
                                 .row = scratch};
    for (int64_t r = 0; r < rows; r++) {
        if ((head->step + r) % plan->length == 0)
            memset(tile->slots, 0, (size_t)(plan->slots * tile->count) * plan->size);
        job.weight = weights_at(s, r);
        if (plan->exact > 0) {
            noise_fill_whole(s, tile, head->seed + (uint64_t)r, own_weight(s, r), scratch);
            (kernel == DPMF_RECIPE_BLT     ? s->wholes->blt
             : kernel == DPMF_RECIPE_TVBLT ? s->wholes->tvblt
                                           : s->wholes->tvblt_second)(&job);
        } else {
            if (r + 1 == rows)
                fill_and_fetch(s, tile, head->seed + (uint64_t)r, scratch);
            else
                noise_fill_seed(s, tile, head->seed + (uint64_t)r, scratch);
            (kernel == DPMF_RECIPE_BLT     ? s->kernels->blt
             : kernel == DPMF_RECIPE_TVBLT ? s->kernels->tvblt
                                           : s->kernels->tvblt_second)(&job);
        }
    }
}

static const void *scratch_row(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    (void)s, (void)tile, (void)t;
    return scratch;
}

static void state_recipe(const noise_stream *s, int64_t t, noise_recipe *out) {
    (void)t;
    out->kind = s->plan.states.kernel;
    out->seeds = 1;
    out->seed[0] = ((const shared *)s->shared)->seed;
    out->weights = weight_count(&s->plan) - (out->kind == DPMF_RECIPE_BLT);
    out->weight = weights_at(s, 0);
}

static const noise_route STATES = {.exact = NOISE_EXACT_STATES,
                                   .has_state = 1,
                                   .prepare = prepare_states,
                                   .make = make_scratch_rows,
                                   .row = scratch_row,
                                   .recipe = state_recipe};

void noise_plan_states(noise_plan *plan, const noise_states *states) {
    plan->route = &STATES;
    plan->states = *states;
    plan->slots = strategy_buffers(plan->leaf);
    plan->work = noise_work_recursion(1, plan->slots);
    plan->replay = REPLAY;
    plan->mapped = 0;
    plan->scratch_rows = 1;
    plan->cache = FIRST_CACHE;
    plan->cache_rows = plan->slots + 2;
    plan->shared_bytes = head_bytes() + REPLAY * weight_count(plan) * (int64_t)plan->size;
}

/*
 * Streams whose step is a short list of combinations: trees have ceil(log2 n) buffers and several seeds per step, low
 * rank a band of seeds and a few sums.
 *
 * A step is linear in (buffers, seeds), so its matrix is read off the strategy's own step: with unit vectors as
 * coordinates, one call gives the full matrix. It determines the list: nothing for a buffer that stays as it is,
 * one combination for each of the others and for the row, in the order buffers, then seeds, and with weights that are
 * the strategy's own in double. Norms and repetitions are inside that step already.
 */
typedef struct output {
    int64_t slot;         /* the buffer that it becomes; `slots`: the row */
    int64_t terms, start; /* its terms in the lists */
} output;

typedef struct program {
    int64_t outputs, seeds;
    uint64_t seed;
    double *state, *seed_units, *row; /* the probe: slots x inputs, seeds x inputs, inputs */
    output *output;                   /* slots + 1 */
    int64_t *input;                   /* which buffer, or slots + which seed */
    char *factor;
} program;

static int64_t part(int64_t count, size_t size) {
    return noise_aligned(count * (int64_t)size);
}

/* Sets the pointers, if there is a block, and returns its size. */
static int64_t place_parts(const noise_plan *plan, char *block) {
    int64_t inputs = plan->slots + plan->seeds, terms = (plan->slots + 1) * inputs;
    int64_t at = part(1, sizeof(program));
    program none, *head = block == NULL ? &none : (program *)block;
    char *base = block;
#define PLACE(name, count, size) (head->name = base == NULL ? NULL : (void *)(base + at), at += part(count, size))
    PLACE(state, plan->slots * inputs, sizeof(double));
    PLACE(seed_units, plan->seeds * inputs, sizeof(double));
    PLACE(row, inputs, sizeof(double));
    PLACE(output, plan->slots + 1, sizeof(output));
    PLACE(input, terms, sizeof(int64_t));
    PLACE(factor, terms, plan->size);
#undef PLACE
    return at;
}

/* Adds one line of the matrix as an output, unless it is the unit of `slot`. Returns the start of the next list. */
static int64_t add_output(const noise_stream *s, program *head, const double *line, int64_t slot, int64_t start) {
    int64_t inputs = s->plan.slots + head->seeds, terms = 0;
    int unchanged = slot < s->plan.slots;
    for (int64_t i = 0; i < inputs; i++) {
        unchanged = unchanged && line[i] == (i == slot);
        if (line[i] == 0) continue;
        head->input[start + terms] = i;
        noise_put(s, head->factor, start + terms++, line[i]);
    }
    if (unchanged) return start;
    head->output[head->outputs++] = (output){slot, terms, start};
    return start + terms;
}

static void prepare_program(noise_stream *s, int64_t t, int64_t rows) {
    const noise_plan *plan = &s->plan;
    program *head = (program *)s->shared;
    int64_t start = 0;
    (void)rows; /* one */
    place_parts(plan, s->shared);
    head->seeds = dpmf_strategy_seeds(plan->strategy, t);
    head->seed = noise_route_seed_row(s, t);
    const int64_t inputs = plan->slots + head->seeds;
    head->outputs = 0;
    memset(head->state, 0, (size_t)(plan->slots * inputs) * sizeof(double));
    memset(head->seed_units, 0, (size_t)(head->seeds * inputs) * sizeof(double));
    for (int64_t j = 0; j < plan->slots; j++)
        head->state[j * inputs + j] = 1;
    for (int64_t j = 0; j < head->seeds; j++)
        head->seed_units[j * inputs + plan->slots + j] = 1;
    plan->strategy->ops->step(plan->strategy, t, inputs, head->seed_units, head->state, head->row);
    for (int64_t j = 0; j < plan->slots; j++)
        start = add_output(s, head, head->state + j * inputs, j, start);
    add_output(s, head, head->row, plan->slots, start);
}

/* The scratch: pointers to the inputs of one output, the row, the seeds, the new buffers. */
static size_t pointer_bytes(const noise_plan *plan) {
    return (size_t)part(plan->slots + plan->seeds, sizeof(void *));
}

static void make_program_row(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const noise_plan *plan = &s->plan;
    const program *head = (const program *)s->shared;
    size_t bytes = (size_t)tile->count * plan->size;
    const void **x = (const void **)scratch;
    char *y = scratch + pointer_bytes(plan), *seeds = y + bytes, *fresh = seeds + (size_t)plan->seeds * bytes;
    (void)rows;
    for (int64_t k = 0; k < head->seeds; k++)
        noise_fill_seed(s, tile, head->seed + (uint64_t)k, seeds + (size_t)k * bytes);
    for (int64_t k = 0; k < head->outputs; k++) {
        const output *o = &head->output[k];
        for (int64_t i = 0; i < o->terms; i++) {
            int64_t input = head->input[o->start + i];
            x[i] = input < plan->slots ? tile->slots + (size_t)input * bytes
                                       : seeds + (size_t)(input - plan->slots) * bytes;
        }
        s->kernels->sum(tile->count, o->terms, head->factor + (size_t)o->start * plan->size, x,
                        o->slot == plan->slots ? y : fresh + (size_t)k * bytes);
    }
    for (int64_t k = 0; k + 1 < head->outputs; k++) /* the last is the row */
        memcpy(tile->slots + (size_t)head->output[k].slot * bytes, fresh + (size_t)k * bytes, bytes);
}

static const void *program_row(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    (void)tile, (void)t;
    return scratch + pointer_bytes(&s->plan);
}

static const noise_route PROGRAM = {
    .has_state = 1, .prepare = prepare_program, .make = make_program_row, .row = program_row};

static const int64_t CACHE = 200000;

void noise_plan_program(noise_plan *plan, int64_t seeds) {
    plan->route = &PROGRAM;
    plan->slots = strategy_buffers(plan->leaf);
    plan->seeds = seeds;
    /* Few nodes of a tree, which has many seeds, change in a step; every buffer of a low rank is combined and copied. */
    plan->work = (noise_work){(double)plan->leaf_rows / (double)plan->length, seeds > 1 ? 8 : 6 * (double)plan->slots};
    plan->mapped = 0;
    plan->scratch_rows = 1 + plan->seeds + plan->slots;
    plan->scratch_bytes = (int64_t)pointer_bytes(plan);
    plan->cache = CACHE;
    plan->cache_rows = plan->scratch_rows + plan->slots;
    plan->shared_bytes = place_parts(plan, NULL);
}

/* Streams of the strategy's own step (users' operators, Nesterov). Buffers are double; seeds and rows are converted. */
static void prepare_steps(noise_stream *s, int64_t t, int64_t rows) {
    shared *head = (shared *)s->shared;
    (void)rows;
    head->step = t;
    head->seed = noise_route_seed_row(s, t); /* one per step */
}

/* The scratch has the row, then the seed as it is made, then the seed and the row in double. */
static void make_step_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const shared *head = (const shared *)s->shared;
    const dpmf_strategy *c = s->plan.strategy;
    int64_t count = tile->count;
    float *single_row = (float *)scratch;
    double *z = (double *)scratch + count, *y = s->precision == DPMF_FLOAT64 ? (double *)scratch : z + count;
    float *single_seed = (float *)(z + 2 * count);
    for (int64_t r = 0; r < rows; r++) {
        noise_fill_seed(s, tile, head->seed + (uint64_t)r,
                        s->precision == DPMF_FLOAT64 ? (void *)z : (void *)single_seed);
        for (int64_t i = 0; i < count && s->precision == DPMF_FLOAT32; i++)
            z[i] = single_seed[i];
        c->ops->step(c, head->step + r, count, z, (double *)tile->slots, y);
    }
    for (int64_t i = 0; i < count && s->precision == DPMF_FLOAT32; i++)
        single_row[i] = (float)y[i];
}

static const noise_route STEPS = {
    .in_doubles = 1, .has_state = 1, .prepare = prepare_steps, .make = make_step_rows, .row = scratch_row};

/* The family's own route; else few bands of C are fed back, few of C^-1 filter seeds, few buffers step; the rest takes W. */
static void choose_route(noise_plan *plan, int64_t lookahead) {
    const dpmf_strategy *leaf = plan->leaf;
    int by_rows = strategy_can(leaf, STRATEGY_CAN_ROW);
    int by_inverse = strategy_can(leaf, STRATEGY_CAN_INVERSE_ROW);
    if (leaf->ops->plan_noise != NULL)
        leaf->ops->plan_noise(plan);
    else if (by_inverse && !(by_rows && leaf->ops->bands(leaf) < leaf->ops->inverse_bands(leaf)))
        noise_plan_filter(plan, lookahead);
    else if (by_rows && leaf->ops->bands(leaf) == 1)
        noise_plan_filter(plan, lookahead);
    else if (by_rows)
        noise_plan_feedback(plan, lookahead);
    else if (strategy_can(leaf, STRATEGY_CAN_STEP) && leaf->ops->buffers(leaf) < leaf->steps - 1) {
        plan->route = &STEPS;
        plan->slots = strategy_buffers(plan->leaf);
        plan->work =
            (noise_work){1, 50 * (double)plan->slots}; /* loops in double, one number at a time, with conversions */
        plan->replay = REPLAY;
        plan->mapped = 0;
        plan->scratch_rows = 4;
        plan->cache = CACHE;
        plan->cache_rows = 2 * plan->slots + 8; /* of the precision's size, which may be half of these */
        plan->shared_bytes = head_bytes();
    } else
        noise_plan_whole(plan, lookahead);
}

/* ---- how much memory ---- */

static dpmf_status check_options(const noise_stream_options *o) {
    const int64_t most = (int64_t)1 << 53;
    if (o->precision != DPMF_FLOAT32 && o->precision != DPMF_FLOAT64)
        return base_fail(DPMF_ERROR_ARGUMENT, "precision %d, accepted 0 (float32) or 1 (float64)", (int)o->precision);
    if (o->first < 0 || o->first > most || o->count < 1 || o->count > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "coordinates: %lld from %lld on, accepted 1 to 2^53 from 0 to 2^53 on",
                         (long long)o->count, (long long)o->first);
    if (o->lookahead < 0 || o->lookahead > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "look-ahead of %lld rows, accepted 0 (chosen) and up",
                         (long long)o->lookahead);
    if (o->tile < 0 || o->tile > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "tiles of %lld coordinates, accepted 0 (chosen) and up",
                         (long long)o->tile);
    return DPMF_OK;
}

/* Rows of SEPARATE bytes, a large page, lie row after row; strides are equal modulo WAY, a cache way, as if stored together. */
static const int64_t SEPARATE = 1 << 21, WAY = 1 << 16;

/* A stream whose rows are made elsewhere needs no slots or scratch here. */
static dpmf_status sum_up(noise_plan *plan) {
    int64_t size = plan->route->in_doubles ? (int64_t)sizeof(double) : (int64_t)plan->size, rows = 0, all = 0;
    int over = __builtin_mul_overflow(plan->slots, (plan->stride > 0 ? plan->stride : plan->padded) * size,
                                      &plan->slot_bytes) ||
               __builtin_mul_overflow(plan->scratch_rows, noise_aligned(plan->tile * size), &rows) ||
               __builtin_add_overflow(plan->scratch_bytes, rows, &plan->scratch_bytes);
    plan->scratch_bytes = noise_aligned(plan->scratch_bytes);
    over = over || __builtin_mul_overflow(plan->scratch_bytes, plan->threads, &all) ||
           __builtin_add_overflow(all, plan->shared_bytes, &all) ||
           (!plan->mapped && __builtin_add_overflow(all, plan->slot_bytes, &all)) || all > INT64_MAX / 2;
    if (over)
        return base_fail(DPMF_ERROR_ARGUMENT, "noise stream: %lld rows of %lld numbers are beyond any memory",
                         (long long)plan->slots, (long long)plan->count);
    if (plan->elsewhere) all = plan->shared_bytes;
    plan->total_bytes = all + noise_aligned((int64_t)sizeof(noise_stream)) + plan->turn_bytes;
    return DPMF_OK;
}

/* The plan with this look-ahead, 0 for the usual one. */
static dpmf_status plan_with(const dpmf_strategy *strategy, const noise_stream_options *o, int threads,
                             int64_t lookahead, noise_plan *plan) {
    *plan =
        (noise_plan){.strategy = strategy, .leaf = strategy_innermost(strategy), .first = o->first, .count = o->count};
    plan->size = o->precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
    plan->length = plan->leaf->steps;
    plan->leaf_rows = strategy_rows(plan->leaf);
    plan->threads = threads < 1 ? 1 : threads;
    plan->seeds = plan->ahead = plan->replay = 1;
    plan->exact = o->exact;
    if (o->exact > 0) plan->size = sizeof(double);
    plan->elsewhere = o->maker != NULL;
    if (plan->elsewhere && o->exact > 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "exact noise is made by the library itself, not elsewhere");
    plan->mapped = o->scratch != NULL && !plan->elsewhere; /* only routes that use it keep it set */
    choose_route(plan, plan->elsewhere ? 1 : lookahead);
    if (plan->bound == NULL) /* a family's own route brings its bound */
        plan->bound = plan->route->exact == NOISE_EXACT_OWN        ? noise_bound_own
                      : plan->route->exact == NOISE_EXACT_FEEDBACK ? noise_bound_feedback
                      : plan->route->exact == NOISE_EXACT_FILTER   ? noise_bound_filter
                                                                   : NULL;
    if (plan->elsewhere && plan->route->recipe == NULL)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "rows of the family '%s' cannot be made elsewhere: the library makes them itself, and "
                         "dpmf_noise_add adds them",
                         strategy->family);
    if (o->exact > 0 && (plan->route->exact == NOISE_EXACT_NONE || plan->leaf_rows != plan->length))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "exact noise: %s has no exact release: accepted: square strategies made by a recursion or "
                         "a matrix (independent, banded, toeplitz, blt, tvblt, replayed seeds, dense)",
                         plan->leaf->ops->class_name);
    plan->mapped = plan->mapped && plan->slots > 0;
    plan->shared_bytes = noise_aligned(plan->shared_bytes);
    int64_t wanted = o->tile;
    const int64_t unit = KERNELS_COMBINE_UNIT;
    plan->base = plan->first / unit * unit;
    plan->padded = noise_round_up(plan->first + plan->count, unit) - plan->base;
    if (wanted == 0) {
        wanted = plan->cache / (plan->cache_rows * (int64_t)plan->size) / unit * unit;
        if (wanted > TILE_MAX) wanted = TILE_MAX;
        if (wanted % (2 * unit) == 0) wanted -= unit; /* rows of a tile a power of two apart would share cache lines */
    }
    wanted = noise_at_most(wanted, plan->padded);
    plan->tile = noise_round_up(wanted < unit ? unit : wanted, unit);
    plan->tiles = (plan->padded + plan->tile - 1) / plan->tile;
    const int64_t size = (int64_t)plan->size, way = WAY / size;
    const int64_t share = plan->threads > 1 ? 4 * plan->threads : 1; /* tiles that keep every thread busy */
    const int one = !plan->route->holds || plan->elsewhere || plan->tiles < share;
    plan->turns = one ? 1 : noise_at_most(plan->tiles / share, plan->ahead);
    plan->turn_bytes = noise_aligned(plan->turns * (int64_t)sizeof(noise_turn));
    if (plan->route->holds && plan->slots > 1 && plan->padded * size >= SEPARATE)
        plan->stride = noise_round_up(plan->padded, way) + plan->tile % way;
    return sum_up(plan);
}

static dpmf_status refuse_memory(const noise_plan *plan, uint64_t memory) {
    if (memory == DPMF_MEMORY_NO_ROWS)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "noise stream: %s keeps %lld rows from step to step, accepted with no memory for rows: "
            "strategies whose inverse has few entries in a row (families taps and bisr, independent noise)",
            plan->leaf->family, (long long)plan->slots);
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "noise stream: it takes %lld bytes for rows of %lld numbers, more than the %llu allowed",
                     (long long)plan->total_bytes + NOISE_ALLOCATION, (long long)plan->count,
                     (unsigned long long)memory);
}

/* Does the plan keep to the limit? */
static int within(const noise_plan *plan, uint64_t memory) {
    if (memory == DPMF_MEMORY_NO_ROWS) return plan->slots == 0;
    return memory == 0 || (uint64_t)plan->total_bytes + NOISE_ALLOCATION <= memory;
}

/*
 * Rows that are made ahead are memory; where they are no part of the state, seeds can be made again instead. So the look-ahead,
 * where the caller leaves it to us, is halved until the limit is met.
 */
dpmf_status noise_plan_make(const dpmf_strategy *strategy, const noise_stream_options *o, int threads,
                            noise_plan *plan) {
    if (strategy == NULL || o == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "noise stream: the strategy or the options are NULL");
    TRY(check_options(o));
    TRY(strategy_need_inverse(strategy));
    TRY(plan_with(strategy, o, threads, o->lookahead, plan));
    const int free_ahead = o->lookahead == 0 && plan->route->holds && !plan->route->has_state;
    while (free_ahead && plan->ahead > 1 && !within(plan, o->memory))
        TRY(plan_with(strategy, o, threads, o->memory == DPMF_MEMORY_NO_ROWS ? 1 : plan->ahead / 2, plan));
    return o->strict && !within(plan, o->memory) ? refuse_memory(plan, o->memory) : DPMF_OK;
}
