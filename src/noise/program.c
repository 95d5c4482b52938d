/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams whose step is a short list of combinations: trees have ceil(log2 n) buffers and several seeds per step, low
 * rank a band of seeds and a few sums.
 *
 * A step is linear in (buffers, seeds), so its matrix is read off the strategy's own step: with unit vectors as
 * coordinates, one call gives the full matrix. It determines the list: nothing for a buffer that stays as it is,
 * one combination for each of the others and for the row, in the order buffers, then seeds, and with weights that are
 * the strategy's own in double. Norms and repetitions are inside that step already.
 */
#include "noise/plan.h"

#include "strategy/strategy.h"

#include <string.h>

typedef struct output {
    int64_t slot;         /* the buffer that it becomes; `slots`: the row */
    int64_t terms, start; /* its terms in the lists */
} output;

typedef struct shared {
    int64_t outputs, seeds;
    uint64_t seed;
    double *state, *seed_units, *row; /* the probe: slots x inputs, seeds x inputs, inputs */
    output *output;                   /* slots + 1 */
    int64_t *input;                   /* which buffer, or slots + which seed */
    char *factor;
} shared;

static int64_t part(int64_t count, size_t size) {
    return noise_round_up(count * (int64_t)size, 64);
}

/* Sets the pointers, if there is a block, and returns its size. */
static int64_t place_parts(const noise_plan *plan, char *block) {
    int64_t inputs = plan->slots + plan->seeds, terms = (plan->slots + 1) * inputs;
    int64_t at = part(1, sizeof(shared));
    shared none, *head = block == NULL ? &none : (shared *)block;
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

static void probe(const noise_plan *plan, shared *head, int64_t t) {
    int64_t inputs = plan->slots + head->seeds;
    memset(head->state, 0, (size_t)(plan->slots * inputs) * sizeof(double));
    memset(head->seed_units, 0, (size_t)(head->seeds * inputs) * sizeof(double));
    for (int64_t j = 0; j < plan->slots; j++)
        head->state[j * inputs + j] = 1;
    for (int64_t j = 0; j < head->seeds; j++)
        head->seed_units[j * inputs + plan->slots + j] = 1;
    plan->strategy->ops->step(plan->strategy, t, inputs, head->seed_units, head->state, head->row);
}

/* Adds one line of the matrix as an output, unless it is the unit of `slot`. Returns the start of the next list. */
static int64_t add_output(const noise_stream *s, shared *head, const double *line, int64_t slot, int64_t start) {
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
    shared *head = (shared *)s->shared;
    int64_t start = 0;
    (void)rows; /* one */
    place_parts(plan, s->shared);
    head->seeds = dpmf_strategy_seeds(plan->strategy, t);
    head->seed = noise_route_seed_row(s, t);
    head->outputs = 0;
    probe(plan, head, t);
    for (int64_t j = 0; j < plan->slots; j++)
        start = add_output(s, head, head->state + j * (plan->slots + head->seeds), j, start);
    add_output(s, head, head->row, plan->slots, start);
}

/* The scratch: pointers to the inputs of one output, the row, the seeds, the new buffers. */
static size_t pointer_bytes(const noise_plan *plan) {
    return (size_t)part(plan->slots + plan->seeds, sizeof(void *));
}

static void make_program_row(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const noise_plan *plan = &s->plan;
    const shared *head = (const shared *)s->shared;
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
