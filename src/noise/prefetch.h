/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that makes the next row of a stream while the caller works. */
#ifndef DPMF_NOISE_PREFETCH_H
#define DPMF_NOISE_PREFETCH_H

#include "noise/stream.h"

typedef struct noise_prefetch noise_prefetch;

/* For rows of `count` numbers; the stream is borrowed. Between ask and take or drop it belongs to the thread. */
DPMF_MUST_CHECK dpmf_status noise_prefetch_create(noise_stream *stream, dpmf_precision precision, int64_t count,
                                                  noise_prefetch **out);

/* Waits for the thread and ends it, wipes. `forked`: in a child, where the thread is not: only wipes. */
void noise_prefetch_free(noise_prefetch *prefetch, int forked);

/* Memory that create takes. */
uint64_t noise_prefetch_memory(dpmf_precision precision, int64_t count);

/* Starts the row that the stream is at, unless a row is asked for already. */
void noise_prefetch_ask(noise_prefetch *prefetch);

/* Has a row been asked for and not been taken or dropped? */
int noise_prefetch_pending(const noise_prefetch *prefetch);

/* Waits for the row and stores it as noise_stream_emit would have. */
DPMF_MUST_CHECK dpmf_status noise_prefetch_take(noise_prefetch *prefetch, double scale, noise_how how, int64_t segments,
                                                const noise_segment *segment);

/* Waits until the thread rests and forgets its row: the stream is the caller's again. */
void noise_prefetch_drop(noise_prefetch *prefetch);

#endif
