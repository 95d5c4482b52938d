/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a shard's buffers from the checkpoints of other shards of the same stream. Every route keeps its buffers as rows
 * of numbers, one per coordinate, and the order of the rows does not depend on the shard (noise/stream.h): the part of a row
 * that two shards share is copied. Checkpoints are read one at a time, and each is authenticated whole before any of it is
 * used. Buffers that no checkpoint covers, or that come from different rows, are refused.
 */
#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"
#include "noise/noise.h"

#include <inttypes.h>
#include <string.h>

enum { HEAD = NOISE_RECORD + 16 };
static const char WHAT[] = "checkpoint";

typedef struct gathering {
    const dpmf_noise *noise;
    noise_stream_layout layout;
    uint8_t *buffers; /* of this shard, as noise_stream_state_load reads them */
    int64_t step;     /* of all parts; -1: none has been seen */
    int64_t covered;  /* coordinates of this shard that the parts so far contain */
    int64_t end;      /* of the last part: the next one begins there or later, so that none comes twice */
} gathering;

/* Reads the part's shard from a record that is authentic for it. */
static dpmf_status check_record(const dpmf_noise *noise, const char *path, const uint8_t *bytes, int64_t *offset,
                                int64_t *count) {
    noise_binding of_part = noise->binding;
    noise_record_shard(bytes, offset, count);
    of_part.offset = *offset;
    of_part.count = *count;
    dpmf_status status = noise_record_check(&of_part, NOISE_RECORD_CHECKPOINT, path, bytes);
    crypto_wipe(&of_part, sizeof of_part);
    return status;
}

static dpmf_status refuse_part(const char *path, const char *why) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' %s", base_show_path(path, shown), why);
}

/* Copies what this shard and the part have in common, slot by slot. */
static void copy_common(gathering *g, const uint8_t *part, int64_t offset, int64_t count) {
    const noise_binding *own = &g->noise->binding;
    const int64_t from = offset > own->offset ? offset : own->offset;
    const int64_t end = offset + count, own_end = own->offset + own->count, to = end < own_end ? end : own_end;
    const int64_t size = g->layout.size;
    memcpy(g->buffers, part, (size_t)g->layout.head);
    for (int64_t j = 0; j < g->layout.slots && from < to; j++)
        memcpy(g->buffers + g->layout.head + (j * own->count + from - own->offset) * size,
               part + g->layout.head + (j * count + from - offset) * size, (size_t)((to - from) * size));
    if (from < to) g->covered += to - from;
}

/* Parts of different rows, or whose heads differ (rows made ahead), do not belong together. */
static dpmf_status check_together(gathering *g, const char *path, const uint8_t *bytes) {
    int64_t step = 0;
    memcpy(&step, bytes + NOISE_RECORD, 8);
    if (g->step < 0) {
        g->step = step;
        return DPMF_OK;
    }
    if (step != g->step) return refuse_part(path, "is for another row than the parts before it");
    if (memcmp(g->buffers, bytes + HEAD, (size_t)g->layout.head) != 0)
        return refuse_part(path, "has rows made ahead that the parts before it do not have");
    return DPMF_OK;
}

static dpmf_status use_part(gathering *g, const char *path, const uint8_t *bytes, int64_t size) {
    int64_t offset = 0, count = 0;
    if (size < HEAD + NOISE_MAC) return refuse_part(path, "is too short to be one");
    TRY(check_record(g->noise, path, bytes, &offset, &count));
    if (offset < 0 || count < 1 || count > g->noise->binding.dim - offset ||
        size != HEAD + g->layout.head + g->layout.slots * count * g->layout.size + NOISE_MAC)
        return refuse_part(path, "does not have the size that its shard and this look-ahead need");
    TRY(noise_mac_check(g->noise->binding.mac_key, WHAT, path, bytes, size));
    TRY(check_together(g, path, bytes));
    if (offset < g->end) return refuse_part(path, "begins before the end of the part before it: give parts in order");
    g->end = offset + count;
    copy_common(g, bytes + HEAD, offset, count);
    return DPMF_OK;
}

static dpmf_status read_part(gathering *g, const char *path) {
    uint8_t *bytes = NULL;
    int64_t size = 0;
    if (path == NULL || *path == '\0')
        return base_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path of a part is NULL or empty");
    TRY(crypto_secret_load(path, WHAT, &bytes, &size));
    dpmf_status status = use_part(g, path, bytes, size);
    crypto_wipe_free(bytes, size);
    return status;
}

dpmf_status dpmf_noise_load_parts(dpmf_noise *noise, int64_t parts, const char *const *path) {
    gathering g = {.noise = noise, .step = -1};
    dpmf_status status = DPMF_OK;
    TRY(noise_check_usable(noise));
    if (parts < 1 || path == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " parts, accepted 1 or more, and their paths", parts);
    g.layout = noise_stream_state_layout(noise->stream);
    const int64_t size = noise_stream_state_size(noise->stream);
    TRY(base_alloc(size > 0 ? size : 1, 1, "the buffers of a checkpoint", (void **)&g.buffers));
    for (int64_t i = 0; i < parts; i++)
        TRY_DONE(read_part(&g, path[i]));
    if (g.covered != noise->binding.count) {
        status = base_fail(DPMF_ERROR_ARGUMENT,
                           "the %" PRId64 " checkpoints have %" PRId64 " of the coordinates %" PRId64 " to %" PRId64
                           ", accepted: each of them once",
                           parts, g.covered, noise->binding.offset, noise->binding.offset + noise->binding.count - 1);
        goto done;
    }
    TRY_DONE(noise_adopt(noise, g.step, g.buffers));
done:
    crypto_wipe_free(g.buffers, size);
    return status;
}
