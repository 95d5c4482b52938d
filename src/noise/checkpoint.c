/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint keeps the buffers of a stream in a file, so that a resumed run need not make all earlier rows again.
 *
 *     the record that names the stream (512)   step (8)   size of the buffers (8)   buffers   HMAC-SHA256 of all before
 *
 * Nothing of the buffers is used before the whole file has been authenticated.
 */
#include "noise/noise.h"

#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"

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

/* A file of another size may belong to another stream. Its head is checked first, because it can name what differs. */
static dpmf_status check_bytes(const dpmf_noise *noise, const char *path, const uint8_t *bytes, int64_t size) {
    char shown[BASE_SHOWN_PATH];
    const int64_t wanted = HEAD + noise_stream_state_size(noise->stream) + NOISE_MAC;
    base_show_path(path, shown);
    if (size < NOISE_RECORD) return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is too short", shown);
    TRY(noise_record_check(&noise->binding, NOISE_RECORD_CHECKPOINT, path, bytes));
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
    const int64_t held = noise_stream_state_size(noise->stream);
    TRY(base_alloc(held, 1, "a checkpoint", (void **)&made));
    dpmf_status status = noise_stream_state_save(noise->stream, made);
    if (status == DPMF_OK) {
        *bytes = made;
        *size = (size_t)held;
    } else
        crypto_wipe_free(made, held);
    return status;
}

dpmf_status dpmf_noise_decode(dpmf_noise *noise, int64_t step, const uint8_t *bytes, size_t size) {
    TRY(noise_check_usable(noise));
    if ((int64_t)size != noise_stream_state_size(noise->stream)) return dpmf_noise_seek(noise, step);
    return noise_adopt(noise, step, bytes);
}

dpmf_status dpmf_noise_load(dpmf_noise *noise, const char *path) {
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    int64_t size = 0, step = 0;
    TRY(check_path(path));
    TRY(noise_check_usable(noise));
    TRY(crypto_secret_load(path, WHAT, &bytes, &size));
    TRY_DONE(check_bytes(noise, path, bytes, size));
    memcpy(&step, bytes + NOISE_RECORD, 8);
    TRY_DONE(noise_adopt(noise, step, bytes + HEAD));
done:
    crypto_wipe_free(bytes, size);
    return status;
}
