/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint keeps the buffers of a stream in a file, so that a resumed run need not make all earlier rows again.
 *
 *     the record that names the stream (512)   step (8)   size of the buffers (8)   buffers   HMAC-SHA256 of all before
 *
 * Nothing of the buffers is used before the whole file has been authenticated. The record has the salt of the state file: rows
 * of one state file are not continued under another.
 */
#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"
#include "noise/noise.h"

#include <inttypes.h>
#include <string.h>

enum { HEAD = NOISE_RECORD + 16 };
static const char WHAT[] = "checkpoint";

static dpmf_status check_path(const char *path) {
    if (path == NULL || *path == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    return DPMF_OK;
}

dpmf_status dpmf_noise_save(dpmf_noise *noise, const char *path) {
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    TRY(check_path(path));
    TRY(noise_check_usable(noise));
    TRY(noise_take_stream(noise));
    const int64_t held = noise_stream_state_size(noise->stream), covered = HEAD + held, all = covered + NOISE_MAC;
    TRY(base_alloc(all, 1, "a checkpoint", (void **)&bytes));
    TRY_DONE(noise_record_make(&noise->binding, NOISE_RECORD_CHECKPOINT, bytes));
    memcpy(bytes + NOISE_RECORD, &noise->step, 8);
    memcpy(bytes + NOISE_RECORD + 8, &held, 8);
    TRY_DONE(noise_stream_state_save(noise->stream, bytes + HEAD));
    TRY_DONE(noise_mac(noise->binding.mac_key, bytes, (size_t)covered, bytes + covered));
    TRY_DONE(crypto_secret_create(path, WHAT, bytes, (size_t)all, 1, NULL, NULL));
done:
    crypto_wipe_free(bytes, all);
    return status;
}

dpmf_status noise_adopt(dpmf_noise *noise, int64_t step, const uint8_t *buffers) {
    TRY(noise_check_seek(noise, step));
    noise_drop_prefetched(noise);
    TRY(noise_stream_state_load(noise->stream, step, buffers));
    noise->step = step;
    noise->in_doubt = noise->bound = 0;
    return DPMF_OK;
}

/*
 * A run that was saved before its first row has no state file yet, and its salt is lost with the program. Such a checkpoint fits
 * any state file of the stream that has given no row, and the other shards of that run: nothing of its noise was seen. Its
 * buffers are those of the lost salt.
 */
static int is_beginning(const dpmf_noise *noise, int64_t row) {
    if (row != 0) return 0;
    return noise->state != NULL ? noise_state_reserved(noise->state) == 0 : noise->binding.salted;
}

/* Goes to `step` with buffers of this salt, which was checked. */
static dpmf_status adopt_checked(dpmf_noise *noise, int64_t step, const uint8_t *salt, const uint8_t *buffers) {
    if (memcmp(salt, noise->binding.salt, sizeof noise->binding.salt) != 0) return dpmf_noise_seek(noise, 0);
    return noise_adopt(noise, step, buffers);
}

static int64_t row_of(const uint8_t *bytes) {
    int64_t row = 0;
    memcpy(&row, bytes + NOISE_RECORD, sizeof row);
    return row;
}

/* Checks the head of a checkpoint for a shard. */
static dpmf_status check_head(const dpmf_noise *noise, int64_t offset, int64_t count, const char *path,
                              const uint8_t *bytes) {
    noise_binding of_part = noise->binding;
    of_part.offset = offset;
    of_part.count = count;
    if (is_beginning(noise, row_of(bytes))) memcpy(of_part.salt, noise_record_salt(bytes), sizeof of_part.salt);
    dpmf_status status = noise_record_check(&of_part, NOISE_RECORD_CHECKPOINT, path, bytes);
    crypto_wipe(&of_part, sizeof of_part);
    return status;
}

/* A file of another size may belong to another stream. Its head is checked first, because it can name what differs. */
static dpmf_status check_bytes(const dpmf_noise *noise, const char *path, const uint8_t *bytes, int64_t size) {
    char shown[BASE_SHOWN_PATH];
    const int64_t wanted = HEAD + noise_stream_state_size(noise->stream) + NOISE_MAC;
    base_show_path(path, shown);
    if (size < HEAD) return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is too short", shown);
    TRY(check_head(noise, noise->binding.offset, noise->binding.count, path, bytes));
    if (size != wanted)
        return base_fail(DPMF_ERROR_FORMAT,
                         "the checkpoint '%s' has %" PRId64 " bytes, accepted for this stream and look-ahead: %" PRId64,
                         shown, size, wanted);
    return noise_mac_check(noise->binding.mac_key, WHAT, path, bytes, size);
}

dpmf_status dpmf_noise_encode(dpmf_noise *noise, uint8_t **bytes, size_t *size) {
    uint8_t *made = NULL;
    TRY(noise_check_usable(noise));
    TRY(noise_take_stream(noise));
    const int64_t held = DPMF_SALT_SIZE + noise_stream_state_size(noise->stream);
    TRY(base_alloc(held, 1, "a checkpoint", (void **)&made));
    memcpy(made, noise->binding.salt, DPMF_SALT_SIZE);
    dpmf_status status = noise_stream_state_save(noise->stream, made + DPMF_SALT_SIZE);
    if (status == DPMF_OK) {
        *bytes = made;
        *size = (size_t)held;
    } else
        crypto_wipe_free(made, held);
    return status;
}

dpmf_status dpmf_noise_decode(dpmf_noise *noise, int64_t step, const uint8_t *bytes, size_t size) {
    TRY(noise_check_usable(noise));
    if (bytes == NULL || size < DPMF_SALT_SIZE)
        return base_fail(DPMF_ERROR_FORMAT, "the buffers of a checkpoint have %zu bytes, accepted: %d or more", size,
                         DPMF_SALT_SIZE);
    if (!is_beginning(noise, step)) TRY(noise_salt_check(bytes, noise->binding.salt, ""));
    if ((int64_t)size - DPMF_SALT_SIZE != noise_stream_state_size(noise->stream)) return dpmf_noise_seek(noise, step);
    return adopt_checked(noise, step, bytes, bytes + DPMF_SALT_SIZE);
}

dpmf_status dpmf_noise_load(dpmf_noise *noise, const char *path) {
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    int64_t size = 0;
    TRY(check_path(path));
    TRY(noise_check_usable(noise));
    TRY(crypto_secret_load(path, WHAT, &bytes, &size));
    TRY_DONE(check_bytes(noise, path, bytes, size));
    TRY_DONE(adopt_checked(noise, row_of(bytes), noise_record_salt(bytes), bytes + HEAD));
done:
    crypto_wipe_free(bytes, size);
    return status;
}

/* ---- buffers from the checkpoints of other shards ---- */

/*
 * Routes keep buffers as rows of numbers, one per coordinate, in an order that no shard changes: common parts are copied. Each
 * checkpoint is authenticated whole before any of it is used. Gaps and different rows are refused.
 */
typedef struct gathering {
    const dpmf_noise *noise;
    noise_stream_layout layout;
    uint8_t *buffers;             /* of this shard, as noise_stream_state_load reads them */
    uint8_t salt[DPMF_SALT_SIZE]; /* of all parts */
    int64_t step;                 /* of all parts; -1: none has been seen */
    int64_t covered;              /* coordinates of this shard that the parts so far contain */
    int64_t end;                  /* of the last part: the next one begins there or later, so that none comes twice */
} gathering;

static dpmf_status refuse_part(const char *path, const char *why) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' %s", base_show_path(path, shown), why);
}

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
    const int64_t step = row_of(bytes);
    if (g->step < 0) {
        g->step = step;
        memcpy(g->salt, noise_record_salt(bytes), sizeof g->salt);
        return DPMF_OK;
    }
    if (step != g->step) return refuse_part(path, "is for another row than the parts before it");
    if (memcmp(noise_record_salt(bytes), g->salt, sizeof g->salt) != 0)
        return refuse_part(path, "belongs to another state file than the parts before it");
    if (memcmp(g->buffers, bytes + HEAD, (size_t)g->layout.head) != 0)
        return refuse_part(path, "has rows made ahead that the parts before it do not have");
    return DPMF_OK;
}

static dpmf_status use_part(gathering *g, const char *path, const uint8_t *bytes, int64_t size) {
    int64_t offset = 0, count = 0;
    if (size < HEAD + NOISE_MAC) return refuse_part(path, "is too short to be one");
    noise_record_shard(bytes, &offset, &count); /* of a record that is authentic for it */
    TRY(check_head(g->noise, offset, count, path, bytes));
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
    TRY_DONE(adopt_checked(noise, g.step, g.salt, g.buffers));
done:
    crypto_wipe_free(g.buffers, size);
    return status;
}
