/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sums of clipped contributions. A unit contributes g, d numbers in several parts; what is added is q grid, q integers
 * with |q| <= N = floor(clip / grid) in the Euclidean norm. Sums of integers do not round, so that one unit more or less
 * moves a sum by at most clip, in any order and for any number of threads and processes.
 *
 * Scale. q = rint(fl(s g)) with
 *
 *     s = min(1 / grid, L / |g|),    L = (N - sqrt(d)/2 - 1) (1 - d 2^-49).
 *
 * Rounding to integers moves each coordinate by at most 1/2, so |q| <= s |g| + sqrt(d)/2 + (the rounding of the products,
 * 2^-53 relatively: below 1 since N < 2^52). |g|^2 is summed in double, any order: off by at most d 2^-52 of itself, for the
 * terms are positive; its root by half of that. Hence |q| <= N. Where 1 / grid is the smaller, |g| / grid <= L and the same
 * holds: a gradient that is short enough is only rounded.
 *
 * Normalised (gamma > 0; AUTO-S of Bu, Wang, Zha and Karypis 2023): s = L / (|g| + gamma) for every length, so that a unit adds
 * clip g / (|g| + gamma). |q| <= s |g| + sqrt(d)/2 + 1 <= N as before, because |g| / (|g| + gamma) < 1, also as rounded. s is at most
 * L / gamma, finite for every gamma from 2^-100 on: a gradient of zeros adds zeros, and numbers whose squares underflow, below 2^-511,
 * round to 0 after that too.
 *
 * Certificate. None of the above is relied on: fl(sum q^2) (1 + d 2^-50) <= N^2 is asked of the integers themselves, and is
 * sufficient, since that sum too is off by at most d 2^-52 of itself. A unit that does not pass is taken out again, exactly,
 * and put in with a smaller scale.
 *
 * A unit whose norm is not a finite double (NaN, infinities, |g| above 1e154 in double precision) contributes 0.
 * Nothing else changes and no message reports it. Squares that underflow belong to numbers that round to 0.
 *
 * Why in two sweeps, over blocks of columns and groups of units: a group that was measured is still in the cache when it is
 * added, the sums of a block stay in the first cache meanwhile, and every partial sum has its place, so that bits do not
 * depend on the threads.
 */
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/grid/grid.h"

#include <assert.h>
#include <math.h>

static const double CLIP_MIN = 0x1p-100, CLIP_MAX = 0x1p100; /* beyond these a grid leaves the range of floats */

enum {
    BLOCK = 4096,
    GROUP = 1 << 21 /* numbers: 8 MB of floats */,
    TRIES = 64,
    THREAD_NUMBERS = 1 << 20 /* fewer are added sooner than threads wake */
};

typedef struct block {
    int64_t part, first, count; /* columns of a part */
    int64_t sum;                /* where they are in the sums */
} block;

typedef struct job {
    const kernels_grid_set *kernels;
    int is_double;
    int64_t first, units; /* the group: units [first, first + units) */
    int64_t blocks, dim;
    const dpmf_segment *part;
    const block *at;
    double *partial; /* blocks x units: squares of a unit over a block */
    double *scale;   /* of each unit; 0: it contributes nothing */
    int64_t *sum;
} job;

static const void *row(const job *j, const block *b, int64_t unit) {
    const int64_t at = (j->first + unit) * j->part[b->part].count + b->first;
    return j->is_double ? (const void *)((const double *)j->part[b->part].memory + at)
                        : (const void *)((const float *)j->part[b->part].memory + at);
}

static dpmf_status measure(void *context, int64_t item, int worker) {
    const job *j = context;
    const block *b = &j->at[item];
    (void)worker;
    for (int64_t u = 0; u < j->units; u++)
        j->partial[item * j->units + u] = j->is_double ? j->kernels->squares_double(b->count, row(j, b, u))
                                                       : j->kernels->squares_float(b->count, row(j, b, u));
    return DPMF_OK;
}

static double add_block(const job *j, const block *b, int64_t unit, int64_t sign) {
    int64_t *sum = j->sum + b->sum;
    return j->is_double ? j->kernels->add_double(b->count, row(j, b, unit), j->scale[unit], sign, sum)
                        : j->kernels->add_float(b->count, row(j, b, unit), j->scale[unit], sign, sum);
}

static dpmf_status add(void *context, int64_t item, int worker) {
    const job *j = context;
    (void)worker;
    for (int64_t u = 0; u < j->units; u++)
        j->partial[item * j->units + u] = j->scale[u] > 0 ? add_block(j, &j->at[item], u, 1) : 0.0;
    return DPMF_OK;
}

static double squares(const job *j, int64_t unit) {
    double sum = 0;
    for (int64_t b = 0; b < j->blocks; b++)
        sum += j->partial[b * j->units + unit];
    return sum;
}

/* All of a unit again, with the scale that it has; sign -1 takes it out. */
static double add_unit(const job *j, int64_t unit, int64_t sign) {
    double sum = 0;
    for (int64_t b = 0; b < j->blocks; b++)
        sum += add_block(j, &j->at[b], unit, sign);
    return sum;
}

/* s of a unit with this norm. */
static double scale_of(double norm, double gamma, double grid, double limit) {
    if (!isfinite(norm)) return 0.0;
    return gamma > 0 ? limit / (norm + gamma) : fmin(1 / grid, limit / norm);
}

static dpmf_status add_group(job *j, base_pool *pool, double gamma, double grid, double most, double limit) {
    TRY(base_pool_run(pool, j->blocks, measure, j));
    for (int64_t u = 0; u < j->units; u++)
        j->scale[u] = scale_of(sqrt(squares(j, u)), gamma, grid, limit);
    TRY(base_pool_run(pool, j->blocks, add, j));
    for (int64_t u = 0; u < j->units; u++) {
        const double slack = 1 + (double)j->dim * 0x1p-50;
        double found = squares(j, u);
        for (int tries = 0; j->scale[u] > 0 && !(found * slack <= most * most); tries++) {
            add_unit(j, u, -1);
            j->scale[u] = tries < TRIES ? j->scale[u] * (1 - 0x1p-20 * ldexp(1, tries < 20 ? tries : 19)) : 0.0;
            if (j->scale[u] > 0) found = add_unit(j, u, 1);
        }
    }
    return DPMF_OK;
}

static int64_t cut(int64_t parts, const dpmf_segment *part, block *at) {
    int64_t blocks = 0, sum = 0;
    for (int64_t p = 0; p < parts; p++)
        for (int64_t first = 0; first < part[p].count; first += BLOCK, blocks++) {
            const int64_t left = part[p].count - first, count = left < BLOCK ? left : BLOCK;
            if (at != NULL) at[blocks] = (block){.part = p, .first = first, .count = count, .sum = sum};
            sum += count;
        }
    return blocks;
}

static dpmf_status check_clip(double clip) {
    if (clip >= CLIP_MIN && clip <= CLIP_MAX) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "clip = %g, accepted: 2^-100 to 2^100", clip);
}

static dpmf_status check(double clip, double gamma, double grid, int64_t units, int64_t parts, const dpmf_segment *part,
                         int64_t *dim) {
    int exponent = 0;
    TRY(check_clip(clip));
    if (gamma != 0 && !(gamma >= CLIP_MIN && gamma <= CLIP_MAX))
        return base_fail(DPMF_ERROR_ARGUMENT, "gamma = %g, accepted: 0 (not normalised), or 2^-100 to 2^100", gamma);
    if (!(grid > 0) || frexp(grid, &exponent) != 0.5 || !(clip / grid >= 1 && clip / grid < 0x1p50))
        return base_fail(DPMF_ERROR_ARGUMENT, "grid = %g, accepted: powers of two from clip/2^50 to clip", grid);
    if (units < 0) return base_fail(DPMF_ERROR_ARGUMENT, "units = %lld, accepted: 0 or more", (long long)units);
    *dim = 0;
    for (int64_t p = 0; p < parts; p++) {
        if (part[p].count < 0)
            return base_fail(DPMF_ERROR_ARGUMENT, "part %lld has %lld numbers, accepted: 0 or more", (long long)p,
                             (long long)part[p].count);
        *dim += part[p].count;
    }
    if (*dim > INT64_C(1) << 40)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld numbers, accepted: up to 2^40", (long long)*dim);
    return DPMF_OK;
}

dpmf_status dpmf_clip_grid(double clip, int64_t units, double *grid) {
    TRY(check_clip(clip));
    if (units < 1 || units > INT64_C(1) << 40)
        return base_fail(DPMF_ERROR_ARGUMENT, "units = %lld, accepted: 1 to 2^40", (long long)units);
    int exponent = 0, bits = 0;
    frexp(clip, &exponent); /* clip = m 2^exponent, 1/2 <= m < 1 */
    while (INT64_C(1) << bits < units)
        bits++;
    /* clip / grid < 2^(1 + 32), and units times that stays below 2^53. */
    *grid = ldexp(1, exponent - 1 - (bits <= 20 ? 32 : 52 - bits));
    return DPMF_OK;
}

dpmf_status dpmf_clip_add(double clip, double gamma, double grid, dpmf_precision precision, int64_t units,
                          int64_t parts, const dpmf_segment *part, int64_t *sum, const dpmf_run *run) {
    dpmf_status status = DPMF_OK;
    base_pool *pool = NULL;
    block *at = NULL;
    job j = {.kernels = kernels_grid_get(), .is_double = precision == DPMF_FLOAT64, .part = part, .sum = sum};
    TRY(check(clip, gamma, grid, units, parts, part, &j.dim));
    const double most = floor(clip / grid), d = (double)j.dim;
    const double limit = (most - sqrt(d) / 2 - 1) * (1 - d * 0x1p-49);
    if (units == 0 || j.dim == 0) return DPMF_OK;
    if (!(limit > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "grid = %g is too coarse for %lld numbers and clip = %g", grid,
                         (long long)j.dim, clip);
    int64_t group = GROUP / j.dim < 1 ? 1 : GROUP / j.dim;
    if (group > units) group = units;
    const int threads = j.dim * group < THREAD_NUMBERS ? 1 : run == NULL ? 0 : run->threads;
    j.blocks = cut(parts, part, NULL);
    TRY_DONE(base_alloc(j.blocks, sizeof *at, "the blocks of a sum", (void **)&at));
    TRY_DONE(base_alloc_doubles(j.blocks * group, "the squares of contributions", &j.partial));
    TRY_DONE(base_alloc_doubles(group, "the scales of contributions", &j.scale));
    TRY_DONE(base_pool_create(threads, &pool));
    cut(parts, part, at);
    j.at = at;
    for (; j.first < units; j.first += group) {
        j.units = units - j.first < group ? units - j.first : group;
        TRY_DONE(add_group(&j, pool, gamma, grid, most, limit));
    }
done:
    base_pool_free(pool);
    base_free(at);
    base_free(j.partial);
    base_free(j.scale);
    return status;
}
