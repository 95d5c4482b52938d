/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of W Z for any strategy, in float or double, of coordinates [first, first + count); no sigma, files or public API. */
#ifndef DPMF_NOISE_STREAM_H
#define DPMF_NOISE_STREAM_H

#include "base/threads.h"
#include "crypto/crypto.h"

typedef struct noise_stream noise_stream;

typedef struct noise_stream_options {
    dpmf_precision precision;
    int64_t first, count; /* coordinates */
    int64_t lookahead;    /* rows made at a time per tile: 0 chosen, 1 none; never changes a bit */
    int64_t tile;         /* coordinates of a tile: 0 chosen; never changes a bit */
    const char
        *scratch; /* a directory for pre-generated rows of strategies that do not stream; NULL: regenerate seeds */
    uint64_t
        memory; /* 0: any; bytes, or DPMF_MEMORY_NO_ROWS: rows are made ahead as far as it allows; never changes a bit */
    int strict;   /* 1: a stream that takes more is refused */
    double exact; /* 0, or the size of a seed in grid steps: rows are then whole numbers of them, in double */
    const dpmf_noise_maker *maker; /* NULL, or the maker of the rows: the stream then has only their recipes */
} noise_stream_options;

/* Everything is allocated here; `strategy` and `seed` are borrowed and must outlive the stream. pool may be NULL. */
DPMF_MUST_CHECK dpmf_status noise_stream_create(const dpmf_strategy *strategy, const crypto_seed *seed,
                                                const noise_stream_options *options, base_pool *pool,
                                                noise_stream **out);
void noise_stream_free(noise_stream *stream); /* wipes its buffers */

/* Memory that create will take, in all and for the buffers alone (buffers x count x size of a number). */
DPMF_MUST_CHECK dpmf_status noise_stream_memory(const dpmf_strategy *strategy, const noise_stream_options *options,
                                                int threads, uint64_t *all, uint64_t *buffers);

/* A row is written to segments of the caller's memory that together hold `count` numbers, in order. */
typedef dpmf_segment noise_segment;

DPMF_MUST_CHECK dpmf_status noise_check_segments(int64_t count, int64_t segments, const noise_segment *segment);

/* The next row: x is stored as scale * x, added to y, or, whole, to 64-bit integers. Never allocates. Fails past the end. */
typedef enum noise_how {
    NOISE_STORE = 0,
    NOISE_ADD,
    NOISE_ADD_WHOLE /* of exact streams alone */
} noise_how;
DPMF_MUST_CHECK dpmf_status noise_stream_emit(noise_stream *stream, double scale, noise_how how, int64_t segments,
                                              const noise_segment *segment);

int64_t noise_stream_step(const noise_stream *stream); /* of the next row */

/* The recipe of row t, which is made elsewhere. The seeds go to `seed`, which has room for `stream_seeds` of them. */
DPMF_MUST_CHECK dpmf_status noise_stream_recipe(noise_stream *stream, int64_t t, uint64_t *seed, dpmf_recipe *out);
int64_t noise_stream_seeds(const noise_stream *stream);

/* Goes to any step; bits are those of a stream that never stopped. If it is cancelled, it continues from a step on the way. */
DPMF_MUST_CHECK dpmf_status noise_stream_seek(noise_stream *stream, int64_t step, const dpmf_run *run);

/* The buffers as bytes: their size, copying them out (which first makes rows that only some tiles have), and in (at `step`). */
int64_t noise_stream_state_size(const noise_stream *stream);
DPMF_MUST_CHECK dpmf_status noise_stream_state_save(noise_stream *stream, uint8_t *bytes);
DPMF_MUST_CHECK dpmf_status noise_stream_state_load(noise_stream *stream, int64_t step, const uint8_t *bytes);

/* Those bytes: `head` bytes that all shards at the same row share, then `slots` rows of `size` bytes per coordinate. */
typedef struct noise_stream_layout {
    int64_t head, slots, size;
} noise_stream_layout;
noise_stream_layout noise_stream_state_layout(const noise_stream *stream);

/* A thread that makes the next row of a stream while the caller works. */

typedef struct noise_prefetch noise_prefetch;

/* For rows of `count` numbers; the stream is borrowed. Between ask and take or drop the thread owns it. */
DPMF_MUST_CHECK dpmf_status noise_prefetch_create(noise_stream *stream, dpmf_precision precision, int64_t count,
                                                  noise_prefetch **out);

/* Waits for the thread, ends it and wipes. `forked`: only wipes, because a child process does not have the thread. */
void noise_prefetch_free(noise_prefetch *prefetch, int forked);

uint64_t noise_prefetch_memory(dpmf_precision precision, int64_t count);

/* Starts the row that the stream is at, unless a row was requested already. */
void noise_prefetch_ask(noise_prefetch *prefetch);

int noise_prefetch_pending(const noise_prefetch *prefetch);

/* Waits for the row and stores it as noise_stream_emit would have. */
DPMF_MUST_CHECK dpmf_status noise_prefetch_take(noise_prefetch *prefetch, double scale, noise_how how, int64_t segments,
                                                const noise_segment *segment);

/* Waits until the thread is idle and drops its row. The caller then owns the stream again. */
void noise_prefetch_drop(noise_prefetch *prefetch);

#endif
