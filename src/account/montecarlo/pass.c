/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes over samples: blocks form chunks, the threads share the chunks, and the chunks' sums are added in their order,
 * so that the answer is the same for any number of threads.
 */
#include "account/montecarlo/pass.h"

#include "base/memory.h"
#include "base/sum.h"
#include <math.h>

enum { LANES = MONTECARLO_LANES, CHUNKS_A_ROUND = 64 };

typedef struct sums {
    double mean[2], square[2], log_bet[2]; /* remove, add */
} sums;

typedef struct pass {
    montecarlo_passes *owner;
    int64_t number, chunk, first_chunk, blocks; /* number: of the run; chunk: blocks in one */
    double bet[2];
    sums results[CHUNKS_A_ROUND];
} pass;

void montecarlo_passes_close(montecarlo_passes *a) {
    base_pool_free(a->pool);
    base_free(a->scratch);
    montecarlo_draws_free(&a->draws);
}

dpmf_status montecarlo_passes_open(const montecarlo_scheme *scheme, uint64_t seed, const dpmf_run *run,
                                   montecarlo_passes *out) {
    montecarlo_passes a = {.seed = seed, .run = run};
    dpmf_status status = DPMF_OK;
    TRY_DONE(montecarlo_draws_create(scheme, &a.draws));
    TRY_DONE(base_pool_create(run == NULL ? 0 : run->threads, &a.pool));
    TRY_DONE(base_alloc_doubles(base_pool_threads(a.pool) * a.draws.scratch, "samples", &a.scratch));
    *out = a;
done:
    if (status != DPMF_OK) montecarlo_passes_close(&a);
    return status;
}

static void add_up(const double y[LANES], double bet, double *mean, double *square, double *log_bet) {
    for (int i = 0; i < LANES; i++) {
        if (y[i] == 0) continue; /* nearly all, as a rule */
        *mean += y[i];
        *square += y[i] * y[i];
        *log_bet -= log1p(-bet * y[i]);
    }
}

static dpmf_status one_chunk(void *context, int64_t item, int worker) {
    pass *p = context;
    const montecarlo_passes *a = p->owner;
    double remove[LANES], add[LANES];
    sums s = {{0}, {0}, {0}};
    const int64_t first = (p->first_chunk + item) * p->chunk;
    const int64_t last = first + p->chunk < p->blocks ? first + p->chunk : p->blocks;
    for (int64_t block = first; block < last; block++) {
        montecarlo_draws_block(&a->draws, a->seed, p->number, block, a->scratch + worker * a->draws.scratch, remove,
                               add);
        add_up(remove, p->bet[0], &s.mean[0], &s.square[0], &s.log_bet[0]);
        add_up(add, p->bet[1], &s.mean[1], &s.square[1], &s.log_bet[1]);
    }
    p->results[item] = s;
    return DPMF_OK;
}

/* Returns the number of blocks that make at least this many samples, in whole rounds over the bins. */
static int64_t blocks_for(const montecarlo_draws *draws, int64_t samples) {
    const int64_t unit = LANES * draws->blocks;
    return (samples + unit - 1) / unit * draws->blocks;
}

/* Draws *samples (rounded up to whole blocks) of run `number` with the aim that the draws have. Chunks are summed in order. */
dpmf_status montecarlo_passes_draw(montecarlo_passes *a, int64_t number, const double bet[2], int64_t *samples,
                                   montecarlo_side found[2]) {
    const char *what = number == 0 ? "sampling privacy losses, to search" : "sampling privacy losses, to confirm";
    pass p = {.owner = a, .number = number, .bet = {bet[0], bet[1]}};
    base_running total[3][2] = {{{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}};
    p.blocks = blocks_for(&a->draws, *samples);
    p.chunk = (1 << 18) / (LANES * a->draws.dimension); /* some milliseconds; from the scheme alone */
    p.chunk = p.chunk < 1 ? 1 : p.chunk > 256 ? 256 : p.chunk;
    const int64_t chunks = (p.blocks + p.chunk - 1) / p.chunk;
    for (; p.first_chunk < chunks; p.first_chunk += CHUNKS_A_ROUND) {
        const int64_t left = chunks - p.first_chunk, count = left < CHUNKS_A_ROUND ? left : CHUNKS_A_ROUND;
        TRY(base_progress(a->run, what, (double)p.first_chunk / (double)chunks));
        TRY(base_pool_run(a->pool, count, one_chunk, &p));
        for (int64_t i = 0; i < count; i++) {
            for (int d = 0; d < 2; d++) {
                base_running_add(&total[0][d], p.results[i].mean[d]);
                base_running_add(&total[1][d], p.results[i].square[d]);
                base_running_add(&total[2][d], p.results[i].log_bet[d]);
            }
        }
    }
    *samples = p.blocks * LANES;
    for (int d = 0; d < 2; d++) {
        found[d].log_most = d == 0 ? a->draws.log_most_remove : a->draws.log_most_add;
        found[d].mean = base_running_value(&total[0][d]) / (double)*samples;
        found[d].square = base_running_value(&total[1][d]) / (double)*samples;
        found[d].log_bet = base_running_value(&total[2][d]) / (double)*samples;
    }
    return DPMF_OK;
}
