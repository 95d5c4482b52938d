/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the cost of a row of noise: the stream itself is run for some rows in the middle of the training run, added
 * to a gradient, by one thread, in turn with a stream of independent noise of the same size. Processor time is counted,
 * and the least of several rounds: what other programs do at the same time then matters little. A round is a multiple
 * of the rows that a stream makes at once. Long rows are cut: streams work tile by tile, and the time of a coordinate
 * hardly depends on how many there are.
 */
#include "base/memory.h"
#include "design/design.h"
#include "noise/noise.h"
#include "strategy/strategy.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { ROUND = 32, ROUNDS = 8 }; /* rows at least; rounds at most */
static const int64_t COORDINATES = 1 << 16, BUFFER_BYTES = 32 << 20, COORDINATES_LEAST = 2048;
static const double ENOUGH = 0.02; /* seconds: no further round after that */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct runner {
    noise_stream *stream;
    const dpmf_strategy *strategy;
    const crypto_seed *seed;
    const noise_stream_options *options;
    int64_t middle, rows; /* first row of the first round (0: of every round); rows in each round */
    double least;         /* seconds of a row */
} runner;

/* Moves to the middle of the run with buffers of zeros: the time of a row does not depend on their contents. */
static dpmf_status go_to_middle(noise_stream *stream, int64_t step) {
    const int64_t size = noise_stream_state_size(stream);
    uint8_t *bytes = NULL;
    TRY(base_alloc(size + (int64_t)sizeof step, 1, "a noise state", (void **)&bytes));
    memcpy(bytes, &step, sizeof step); /* rows made, where a state begins with that */
    dpmf_status status = noise_stream_state_load(stream, step, bytes);
    base_free(bytes);
    return status;
}

static dpmf_status open_runner(const dpmf_strategy *strategy, const crypto_seed *seed,
                               const noise_stream_options *options, runner *out) {
    const int64_t n = strategy->steps;
    runner r = {.strategy = strategy, .seed = seed, .options = options, .least = INFINITY};
    TRY(noise_stream_create(strategy, seed, options, NULL, &r.stream));
    const int64_t ahead = r.stream->plan.ahead > 1 ? r.stream->plan.ahead : 1;
    r.rows = noise_at_most(noise_round_up(ROUND, ahead), n);
    if (n >= 2 * (ROUNDS + 1) * r.rows)
        r.middle = n / 2;
    else
        r.rows = n; /* a short run: all of it */
    dpmf_status status = go_to_middle(r.stream, r.middle);
    if (status == DPMF_OK)
        *out = r;
    else
        noise_stream_free(r.stream);
    return status;
}

/* Times one more round and adds its seconds to *spent. */
static dpmf_status time_round(runner *r, const dpmf_segment *gradient, double *spent) {
    if (r->middle == 0) { /* restart: rows that a stream still holds would only be copied */
        noise_stream_free(r->stream);
        r->stream = NULL;
        TRY(noise_stream_create(r->strategy, r->seed, r->options, NULL, &r->stream));
    }
    double start = now();
    for (int64_t i = 0; i < r->rows; i++)
        TRY(noise_stream_emit(r->stream, 1e-3, 1, 1, gradient));
    double seconds = now() - start;
    r->least = fmin(r->least, seconds / (double)r->rows);
    *spent += seconds;
    return DPMF_OK;
}

/* Measures the seconds of a row of `count` numbers, of this strategy and of independent noise. */
static dpmf_status time_rows(const dpmf_strategy *strategy, const dpmf_strategy *identity, dpmf_precision precision,
                             uint64_t memory, int64_t count, double *own, double *independent) {
    const noise_stream_options o = {.precision = precision, .count = count, .memory = memory};
    const uint8_t subkey[32] = {0}; /* these rows are thrown away */
    dpmf_segment gradient = {NULL, count};
    runner ours = {0}, theirs = {0};
    crypto_seed *seed = NULL;
    double spent = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(count, sizeof(double), "a gradient", &gradient.memory));
    TRY_DONE(crypto_seed_open(subkey, &seed));
    TRY_DONE(open_runner(strategy, seed, &o, &ours));
    TRY_DONE(open_runner(identity, seed, &o, &theirs));
    for (int i = 0; i <= ROUNDS && (i < 2 || spent < ENOUGH); i++) {
        TRY_DONE(time_round(&ours, &gradient, &spent));
        TRY_DONE(time_round(&theirs, &gradient, &spent));
    }
    *own = ours.least;
    *independent = theirs.least;
done:
    noise_stream_free(ours.stream);
    noise_stream_free(theirs.stream);
    crypto_seed_close(seed);
    base_free(gradient.memory);
    return status;
}

dpmf_status design_bench(const dpmf_design *d, const dpmf_strategy *strategy, double *seconds, double *overhead) {
    const dpmf_precision precision = d->options.precision;
    const int64_t row_bytes = (strategy_buffers(strategy) + 1) * (precision == DPMF_FLOAT64 ? 8 : 4);
    int64_t count = BUFFER_BYTES / row_bytes;
    const uint64_t memory =
        d->options.memory == DPMF_MEMORY_NO_ROWS ? DPMF_MEMORY_NO_ROWS : 0; /* bytes are for whole rows */
    double own = 0, independent = 0;
    dpmf_strategy *identity = NULL;
    dpmf_status status = DPMF_OK;
    if (count > COORDINATES) count = COORDINATES;
    if (count < COORDINATES_LEAST) count = COORDINATES_LEAST;
    if (count > d->options.dim) count = d->options.dim;
    TRY(strategy_create_identity(d->problem.steps, &identity));
    TRY_DONE(time_rows(strategy, identity, precision, memory, count, &own, &independent));
    if (strcmp(strategy->family, identity->family) == 0) own = independent; /* the same by definition */
    *seconds = own * (double)d->options.dim / (double)count;
    *overhead = independent > 0 ? own / independent : 1;
done:
    dpmf_strategy_free(identity);
    return status;
}
