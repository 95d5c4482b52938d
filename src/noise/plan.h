/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the stream share this: how a route makes its rows, and how the memory is arranged.
 *
 * Coordinates are cut into tiles that a processor's cache can hold; a tile starts at a multiple of 64 and is padded to
 * one, so that kernels and seeds never meet a ragged end (the padding is computed like any coordinate and never
 * emitted). Slot j of a tile is at j * stride: buffers that move on at every step lie together, tile by tile, with a
 * stride of the tile's own coordinates; long rows that are made ahead lie row after row, so that the first step
 * touches the memory of its own row alone. A tile belongs to one thread at a time.
 *
 * A route either holds rows: it makes up to `ahead` rows at a time, which stay in its slots until they are emitted; or
 * it has a state: it makes one row at a time, which the worker's scratch holds, and moves the state on.
 */
#ifndef DPMF_NOISE_PLAN_H
#define DPMF_NOISE_PLAN_H

#include "kernels/combine/combine.h"
#include "kernels/whole/whole.h"
#include "noise/stream.h"
#include "strategy/strategy.h"

#include <sys/types.h>

typedef struct noise_tile {
    int64_t start, count; /* absolute coordinates; multiples of 64 */
    int64_t stride;       /* numbers from one of its slots to the next */
    char *slots;          /* its rows */
} noise_tile;

/* A row's recipe; `seed` is memory for all seeds that a row may take. */
typedef struct noise_recipe {
    dpmf_recipe_kind kind;
    int64_t seeds, weights;
    uint64_t *seed;
    const void *weight;
} noise_recipe;

/* How a route makes exact rows (docs/exactness.md). */
typedef enum noise_exact_kind {
    NOISE_EXACT_NONE = 0,
    NOISE_EXACT_OWN,      /* a row is its own seed */
    NOISE_EXACT_FEEDBACK, /* C applied to earlier rows */
    NOISE_EXACT_STATES,   /* the same by buffers */
    NOISE_EXACT_FILTER    /* W applied to seeds */
} noise_exact_kind;

/* Error bounds of a route in an exact stream, seeds of deviation 1; a number exceeds `reach` with probability below 2^-1000. */
typedef struct noise_exact_bounds {
    double arithmetic; /* the largest error of what is fed back, relative to one seed */
    double reach;      /* the largest number of a row */
    double spread;     /* the norm of the shift's error for one coordinate, divided by one grid step */
} noise_exact_bounds;

typedef struct noise_route {
    int holds;      /* rows made ahead stay in the slots */
    int in_doubles; /* the slots are double for any precision */
    noise_exact_kind exact;
    int has_state; /* the slots are needed to continue; else they can be made again from the step alone */
    void (*prepare)(noise_stream *s, int64_t t, int64_t rows); /* coefficients of rows t..t+rows-1 */
    void (*make)(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows);
    const void *(*row)(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t);
    dpmf_status (*start)(noise_stream *s); /* optional: fills in what does not change with the step */
    /* optional: what `prepare` has computed for one row t, if it is made elsewhere; seeds go to out->seed */
    void (*recipe)(const noise_stream *s, int64_t t, noise_recipe *out);
} noise_route;

/* A leaf of a few buffers that one kernel moves on: the kernel, its buffers or nodes, its weights of step t at `factor`. */
typedef struct noise_states {
    dpmf_recipe_kind kernel; /* DPMF_RECIPE_BLT, _TVBLT or _TVBLT_SECOND */
    int nodes;
    void (*fill)(const noise_stream *s, int64_t t, double factor, void *weight);
} noise_states;

/* The mean work per number of a row: normals made, and numbers of rows or buffers touched in a cache (each is one product). */
typedef struct noise_work {
    double normals, touched;
} noise_work;

typedef struct noise_plan {
    const noise_route *route;
    noise_work work;
    /* the proven bounds of its exact rows; needed where route->exact is not NOISE_EXACT_NONE */
    dpmf_status (*bound)(const struct noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out);
    noise_states states;                               /* of the route of few buffers (noise/plan.c) */
    const dpmf_strategy *strategy, *leaf;              /* leaf: without norms and stamps */
    double exact;                                      /* as in the stream's options */
    int64_t length, leaf_rows;                         /* of the leaf: steps, seeds */
    size_t size;                                       /* of a number */
    int64_t lags;                                      /* feedback: rows kept; filter: terms of a row at most */
    int64_t slots, ahead, replay;                      /* replay: rows made in one call when nothing is emitted */
    int64_t seeds;                                     /* rows of Z that a step takes, at most */
    int64_t scratch_rows, shared_bytes, scratch_bytes; /* a worker's rows of a tile; for all; a worker's, all in all */
    int64_t cache;                                     /* bytes that the rows of a tile may take */
    int64_t cache_rows;                                /* how many those are */
    int64_t first, count, base, padded;                /* coordinates */
    int64_t tile, tiles;
    int64_t stride;      /* numbers from one row in the slots to the next; 0: they lie tile by tile */
    int64_t turns;       /* runs of tiles that make rows ahead at different steps (noise/stream.c) */
    int64_t turn_bytes;  /* of their table */
    int threads, mapped; /* mapped: the slots are in a file */
    int elsewhere;       /* rows are made elsewhere: there are coefficients, and no slots or scratch */
    int64_t slot_bytes, total_bytes;
} noise_plan;

typedef struct noise_turn {
    int64_t made; /* rows before this one are made in its tiles */
    int64_t rows; /* that it makes in this step */
} noise_turn;

struct noise_stream {
    noise_plan plan;
    const crypto_seed *seed;
    dpmf_precision precision;
    const kernels_combine *kernels;
    const kernels_whole_set *wholes;
    base_pool *pool;
    dpmf_noise_maker maker; /* of rows that are made elsewhere */
    pid_t owner; /* the process that made it: a child must not wipe the file that it shares with its parent */
    noise_turn *turn;
    char *shared, *scratch, *slots;
    int64_t step;      /* of the next row */
    int64_t made;      /* rows before this one are made */
    int64_t kept;      /* and from this one on they are still held */
    int64_t level;     /* rows that all turns had made when they last were level */
    int64_t reached;   /* no row from this one on has been emitted since */
    int64_t seed_step; /* the first seed of this step ... */
    uint64_t seed_row; /* ... is this row of Z */
};

/* ---- the routes: each fills in its part of the plan ---- */
void noise_plan_feedback(noise_plan *plan, int64_t lookahead);        /* C of few bands (noise/routes.c) */
void noise_plan_filter(noise_plan *plan, int64_t lookahead);          /* C^-1 of few bands */
void noise_plan_whole(noise_plan *plan, int64_t lookahead);           /* any W */
void noise_plan_states(noise_plan *plan, const noise_states *states); /* few buffers (noise/plan.c) */
void noise_plan_program(noise_plan *plan, int64_t seeds); /* a list of combinations, at most `seeds` per step */

/* ---- proven bounds of the arithmetic (noise/exact_bounds.c) ---- */

#define NOISE_EPS 0x1p-53
#define NOISE_TAILS 41.0 /* standard deviations that no number of a run exceeds except with probability 2^-1000 */

/* If `b` is NaN, so is the result: a bound that could not be computed does not vanish. */
static inline double noise_larger(double a, double b) {
    return a > b ? a : b;
}

DPMF_MUST_CHECK dpmf_status noise_bound_running_sums(const dpmf_strategy *s, const dpmf_run *run, double *out);
/* The spread of routes that apply W to seeds. */
DPMF_MUST_CHECK dpmf_status noise_bound_forward_spread(const noise_plan *plan, const dpmf_run *run, double *spread);
DPMF_MUST_CHECK dpmf_status noise_bound_own(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out);
DPMF_MUST_CHECK dpmf_status noise_bound_feedback(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out);
DPMF_MUST_CHECK dpmf_status noise_bound_filter(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out);

/* A recursion reads and writes every buffer, reads it again beyond the eight that registers hold, and writes the row. */
noise_work noise_work_recursion(double normals, int64_t buffers);

/* The same with a mix of several seeds in the place of one, which is written before it is read. */
noise_work noise_work_replay(double normals, int64_t buffers);

enum { NOISE_ALLOCATION = 128 }; /* what base/process.c adds to an allocation for its header */

/* Chooses the route and the size of the tiles, and computes the memory (noise/plan.c). */
DPMF_MUST_CHECK dpmf_status noise_plan_make(const dpmf_strategy *strategy, const noise_stream_options *o, int threads,
                                            noise_plan *plan);

/* The product of the norms that scale row t. */
double noise_route_factor(const noise_plan *plan, int64_t t);

/* The first row of Z that step t takes. */
uint64_t noise_route_seed_row(noise_stream *s, int64_t t);

int64_t noise_round_up(int64_t value, int64_t unit);
int64_t noise_at_most(int64_t value, int64_t most);
int64_t noise_aligned(int64_t bytes); /* parts of the allocation start at multiples of 64 bytes */

/* Stores a double as element i of an array of the stream's type, rounded once. */
static inline void noise_put(const noise_stream *s, void *array, int64_t i, double value) {
    if (s->precision == DPMF_FLOAT32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

/* The exactly rounded seed of step `t`, whose weight in its own row is `weight`. */
static inline void noise_fill_whole(const noise_stream *s, const noise_tile *tile, uint64_t row, double weight,
                                    void *out) {
    crypto_seed_fill_wholes(s->seed, s->plan.exact * (weight < 0 ? -weight : weight), row, (uint64_t)tile->start,
                            (size_t)tile->count, out);
}

static inline void noise_fill_seed(const noise_stream *s, const noise_tile *tile, uint64_t row, void *out) {
    crypto_seed_fill(s->seed, s->precision, row, (uint64_t)tile->start, (size_t)tile->count, out);
}

#endif
