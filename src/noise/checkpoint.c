/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: the buffers of a stream in a file, so that a resumed run need not make all earlier rows again.
 *
 *     the record that names the stream (512)   step (8)   size of the buffers (8)   buffers   HMAC-SHA256 of all before
 *
 * Nothing of the buffers is used before the whole file has been authenticated.
 */
#include "noise/noise.h"

#include "base/memory.h"
#include "crypto/crypto.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = NOISE_RECORD + 16 };
static const char WHAT[] = "checkpoint";

static void wipe_and_free(uint8_t *bytes, int64_t size) {
    if (bytes != NULL) crypto_wipe(bytes, (size_t)size);
    base_free(bytes);
}

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
    wipe_and_free(bytes, all);
    return status;
}

/* The whole file, authentic, of this stream. */
static dpmf_status read_checkpoint(const dpmf_noise *noise, int file, const char *path, int64_t size, uint8_t *bytes) {
    char shown[CRYPTO_SHOWN_PATH];
    uint8_t mac[NOISE_MAC];
    const int64_t covered = size - NOISE_MAC;
    TRY(crypto_secret_read(file, path, WHAT, 0, bytes, (size_t)size));
    TRY(noise_record_check(&noise->binding, NOISE_RECORD_CHECKPOINT, path, bytes));
    TRY(noise_mac(noise->binding.mac_key, bytes, (size_t)covered, mac));
    if (CRYPTO_memcmp(mac, bytes + covered, sizeof mac) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' has been changed: its authentication does not match",
                         crypto_secret_show(path, shown));
    return DPMF_OK;
}

static dpmf_status check_size(const dpmf_noise *noise, const char *path, int64_t size) {
    char shown[CRYPTO_SHOWN_PATH];
    const int64_t wanted = HEAD + noise_stream_state_size(noise->stream) + NOISE_MAC;
    if (size == wanted) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "the checkpoint '%s' has %" PRId64 " bytes, accepted for this stream and look-ahead: %" PRId64,
                     crypto_secret_show(path, shown), size, wanted);
}

dpmf_status noise_adopt(dpmf_noise *noise, int64_t step, const uint8_t *buffers) {
    TRY(noise_check_seek(noise, step));
    noise_drop_prefetched(noise);
    TRY(noise_stream_state_load(noise->stream, step, buffers));
    noise->step = step;
    noise->in_doubt = noise->bound = 0;
    return DPMF_OK;
}

dpmf_status dpmf_noise_encode(dpmf_noise *noise, uint8_t **bytes, size_t *size) {
    uint8_t *made = NULL;
    TRY(noise_check_usable(noise));
    TRY(noise_take_stream(noise));
    const int64_t held = noise_stream_state_size(noise->stream);
    TRY(base_alloc(held, 1, "a checkpoint", (void **)&made));
    dpmf_status status = noise_stream_state_save(noise->stream, made);
    if (status == DPMF_OK) {
        *bytes = made;
        *size = (size_t)held;
    } else
        wipe_and_free(made, held);
    return status;
}

dpmf_status dpmf_noise_decode(dpmf_noise *noise, int64_t step, const uint8_t *bytes, size_t size) {
    TRY(noise_check_usable(noise));
    if ((int64_t)size != noise_stream_state_size(noise->stream)) return dpmf_noise_seek(noise, step);
    return noise_adopt(noise, step, bytes);
}

static dpmf_status load_bytes(dpmf_noise *noise, const uint8_t *bytes) {
    int64_t step = 0;
    memcpy(&step, bytes + NOISE_RECORD, 8);
    return noise_adopt(noise, step, bytes + HEAD);
}

dpmf_status dpmf_noise_load(dpmf_noise *noise, const char *path) {
    char shown[CRYPTO_SHOWN_PATH];
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    int file = -1;
    int64_t size = 0;
    TRY(check_path(path));
    TRY(noise_check_usable(noise));
    TRY(crypto_secret_open(path, WHAT, 0, &file, &size));
    if (file < 0)
        return base_fail(DPMF_ERROR_IO, "cannot read the checkpoint '%s': it does not exist",
                         crypto_secret_show(path, shown));
    /* A file of another size may be of another stream: its head can say which field differs. */
    if (size < NOISE_RECORD) size = NOISE_RECORD; /* the reader will find it too short */
    TRY_DONE(base_alloc(size, 1, "a checkpoint", (void **)&bytes));
    TRY_DONE(crypto_secret_read(file, path, WHAT, 0, bytes, NOISE_RECORD));
    TRY_DONE(noise_record_check(&noise->binding, NOISE_RECORD_CHECKPOINT, path, bytes));
    TRY_DONE(check_size(noise, path, size));
    TRY_DONE(read_checkpoint(noise, file, path, size, bytes));
    TRY_DONE(load_bytes(noise, bytes));
done:
    wipe_and_free(bytes, size);
    close(file);
    return status;
}
