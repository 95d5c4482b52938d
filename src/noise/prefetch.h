/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that makes the next row of a stream while the caller works. */
#ifndef DPMF_NOISE_PREFETCH_H
#define DPMF_NOISE_PREFETCH_H

#include "noise/stream.h"

typedef struct noise_prefetch noise_prefetch;

/* For rows of `count` numbers; the stream is borrowed. Between ask and take or drop the thread owns it. */
DPMF_MUST_CHECK dpmf_status noise_prefetch_create(noise_stream *stream, dpmf_precision precision, int64_t count,
                                                  noise_prefetch **out);

/* Waits for the thread, ends it and wipes. `forked`: only wipes, because a child process does not have the thread. */
void noise_prefetch_free(noise_prefetch *prefetch, int forked);

/* Memory that create takes. */
uint64_t noise_prefetch_memory(dpmf_precision precision, int64_t count);

/* Starts the row that the stream is at, unless a row was requested already. */
void noise_prefetch_ask(noise_prefetch *prefetch);

/* Was a row requested and not taken or dropped? */
int noise_prefetch_pending(const noise_prefetch *prefetch);

/* Waits for the row and stores it as noise_stream_emit would have. */
DPMF_MUST_CHECK dpmf_status noise_prefetch_take(noise_prefetch *prefetch, double scale, noise_how how, int64_t segments,
                                                const noise_segment *segment);

/* Waits until the thread is idle and drops its row. The caller then owns the stream again. */
void noise_prefetch_drop(noise_prefetch *prefetch);

#endif
