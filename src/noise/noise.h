/* SPDX-License-Identifier: Apache-2.0 */
/* The public stream's internals, for its own files. */
#ifndef DPMF_NOISE_H
#define DPMF_NOISE_H

#include "noise/plan.h"
#include "noise/record.h"
#include "noise/stream.h"

#include <sys/types.h>

struct dpmf_noise {
    noise_binding binding; /* what a state file or a checkpoint must agree with */
    dpmf_exact release;    /* scale = clip x sigma x sensitivity; grid 0: not exact */
    int calibrated, replay;
    pid_t pid; /* of the process that made it; 0 while it is being made */
    dpmf_run run;
    dpmf_strategy *strategy; /* retained: the mechanism may go */
    crypto_seed *seed;
    base_pool *pool;
    noise_stream *stream;
    noise_prefetch *prefetch; /* NULL: none */
    noise_state *state;       /* NULL: none */
    int64_t step;             /* of the next row; the stream itself may be at another one until a row is requested */
    int64_t prefetched;       /* the row that was last requested from the prefetching thread */
    int in_doubt;             /* the state file has a row that may not have arrived; the caller has to decide */
    int elsewhere;            /* 1: rows are made by `options.maker` (a device) */
    int ended;                /* the state file could not be written */
    int bound;                /* `mark` is that of the sum that the next row is for */
    uint8_t mark[NOISE_MAC];
    uint64_t *recipe_seed; /* rows made elsewhere: memory for the seeds of a recipe; else NULL */
    uint8_t subkey[32];    /* and the key of the seeds, which is given to the maker once */
};

/* The checks that every call makes first, and those of going to a row. */
DPMF_MUST_CHECK dpmf_status noise_check_usable(const dpmf_noise *noise);
DPMF_MUST_CHECK dpmf_status noise_check_seek(const dpmf_noise *noise, int64_t step);

/*
 * dpmf_noise_create for a caller that keeps the state file: `keep` opens it once the binding is known and before the seeds
 * are, may change the binding, and puts the file's salt into it. NULL: the stream keeps it (noise_open_state).
 */
typedef dpmf_status noise_keep(void *context, noise_binding *binding);
DPMF_MUST_CHECK dpmf_status noise_create_kept(const dpmf_mechanism *mechanism, int64_t dim, double clip,
                                              const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options,
                                              noise_keep *keep, void *context, dpmf_noise **out);

/*
 * The part of a stream that a lazy one needs: scale, binding, state file, seeds and threads, and nothing that makes rows. Its
 * seeds are of no other stream: the label is hashed with the width of the table's rows.
 */
DPMF_MUST_CHECK dpmf_status noise_create_lazy(const dpmf_mechanism *mechanism, int64_t rows, int64_t width, double clip,
                                              const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options,
                                              dpmf_noise **out);

/* Opens the state file, if one is kept, and goes to its row. This and the next two are in noise/bind.c. */
DPMF_MUST_CHECK dpmf_status noise_open_state(dpmf_noise *noise, const dpmf_noise_options *options);

/* Refuses a row that was given before, for another sum or for an unknown one. */
DPMF_MUST_CHECK dpmf_status noise_check_bound(const dpmf_noise *noise);

/* Reserves the next row, if it is not reserved yet. */
DPMF_MUST_CHECK dpmf_status noise_reserve(dpmf_noise *noise);

/* Goes to `step` with these buffers, which are authentic, if the rules of the state file allow it (noise/checkpoint.c). */
DPMF_MUST_CHECK dpmf_status noise_adopt(dpmf_noise *noise, int64_t step, const uint8_t *buffers);

/* Ends prefetching for now; the second also brings the stream to noise->step. The stream is then the caller's. */
void noise_drop_prefetched(dpmf_noise *noise);
DPMF_MUST_CHECK dpmf_status noise_take_stream(dpmf_noise *noise);

#endif
