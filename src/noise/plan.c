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

/* A tile has at most this many coordinates; more would only use more cache. */
enum { TILE_MAX = 4096 };

/* ---- which route ---- */

/*
 * Uses the family's own route, if it has one. If C has few bands, outputs are fed back. If C^-1 has few bands, seeds are
 * filtered, and made again rather than kept. A stream of few buffers uses its own step. All other strategies need every
 * earlier seed (or every seed) for a row.
 */
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
    else if (strategy_can(leaf, STRATEGY_CAN_STEP) && leaf->ops->buffers(leaf) < leaf->steps - 1)
        noise_plan_steps(plan);
    else
        noise_plan_whole(plan, lookahead);
}

/* Refuses a plan whose route has no exact rows. */
static dpmf_status check_exact(const noise_plan *plan) {
    if (plan->route->exact != NOISE_EXACT_NONE && plan->leaf_rows == plan->length) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "exact noise: %s has no exact release: accepted: square strategies made by a recursion or "
                     "a matrix (independent, banded, toeplitz, blt, tvblt, replayed seeds, dense)",
                     plan->leaf->ops->class_name);
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

static void cut_tiles(noise_plan *plan, int64_t wanted) {
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
}

/*
 * Rows of at least SEPARATE bytes, a large page, are stored row after row. The slots of a tile then use the same places of
 * a cache as if they were stored together: strides are equal up to multiples of WAY, the size of a way of a second-level
 * cache.
 */
static const int64_t SEPARATE = 1 << 21, WAY = 1 << 16;

static void place_rows(noise_plan *plan) {
    const int64_t size = (int64_t)plan->size, way = WAY / size;
    plan->turns = noise_turns_of(plan);
    plan->turn_bytes = noise_aligned(plan->turns * (int64_t)sizeof(noise_turn));
    if (plan->route->holds && plan->slots > 1 && plan->padded * size >= SEPARATE)
        plan->stride = noise_round_up(plan->padded, way) + plan->tile % way;
}

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

dpmf_status noise_plan_make(const dpmf_strategy *strategy, const noise_stream_options *o, int threads,
                            noise_plan *plan) {
    if (strategy == NULL || o == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "noise stream: the strategy or the options are NULL");
    TRY(check_options(o));
    TRY(strategy_need_inverse(strategy));
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
    choose_route(plan, plan->elsewhere ? 1 : o->lookahead);
    if (plan->elsewhere && plan->route->recipe == NULL)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "rows of the family '%s' cannot be made elsewhere: the library makes them itself, and "
                         "dpmf_noise_add adds them",
                         strategy->family);
    if (o->exact > 0) TRY(check_exact(plan));
    plan->mapped = plan->mapped && plan->slots > 0;
    plan->shared_bytes = noise_aligned(plan->shared_bytes);
    cut_tiles(plan, o->tile);
    place_rows(plan);
    return sum_up(plan);
}
