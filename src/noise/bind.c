/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row is bound to one sum. Adding the same row to two sums reveals their difference, and a resumed run may well compute
 * another sum in a step that it repeats: because of dropout, another order of additions, or another machine. So the caller
 * names the sum by a digest before it takes the row. The state file keeps a mark of (row, digest), and a repeated request
 * for a row is granted only if its mark is the same.
 */
#include "noise/noise.h"

#include "base/memory.h"
#include "crypto/crypto.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the state file of a stream ---- */

dpmf_status noise_state_path(const char *state, const char *key_file, int rows_may_repeat, char **path) {
    if (state != NULL) return base_copy_text(state, path);
    if (key_file == NULL || rows_may_repeat) return DPMF_OK;
    const size_t room = strlen(key_file) + sizeof ".state";
    TRY(base_alloc((int64_t)room, 1, "a path", (void **)path));
    snprintf(*path, room, "%s.state", key_file);
    return DPMF_OK;
}

dpmf_status noise_state_explain(dpmf_status status) {
    char words[600];
    if (status != DPMF_ERROR_ARGUMENT) return status;
    snprintf(words, sizeof words, "%s", dpmf_last_error());
    return base_fail(status, "%s; a key file serves one run: another run needs its own key", words);
}

dpmf_status noise_open_state(dpmf_noise *noise, const dpmf_noise_options *o) {
    dpmf_status status = DPMF_OK;
    noise_binding bound = noise->binding;
    char *path = NULL;
    if (o->whole_state) {
        bound.offset = 0;
        bound.count = bound.dim;
    }
    TRY_DONE(noise_state_path(o->state, o->key_file, o->rows_may_repeat, &path));
    if (path == NULL) goto done;
    status = noise_state_open(path, &bound, noise->replay, &noise->state);
    if (o->state == NULL) status = noise_state_explain(status);
    if (status != DPMF_OK) goto done;
    memcpy(noise->binding.salt, bound.salt, sizeof bound.salt);
    if (o->state_now) TRY_DONE(noise_state_begin(noise->state));
    noise->step = noise_state_reserved(noise->state);
    noise->in_doubt = noise_state_arrived(noise->state) < noise->step;
done:
    crypto_wipe(&bound, sizeof bound);
    base_free(path);
    return status;
}

dpmf_status noise_reserve(dpmf_noise *noise) {
    if (noise->state == NULL || noise->step < noise_state_reserved(noise->state)) return DPMF_OK;
    assert(noise->step == noise_state_reserved(noise->state));
    dpmf_status status = noise_state_reserve(noise->state, noise->bound ? noise->mark : NULL);
    if (status != DPMF_OK) noise->ended = 1; /* it is not known what is on the disk now */
    return status;
}

/* ---- sums ---- */

/* Refuses a row that was given before, unless it was for the same sum. `bound`: the caller now names one, with `mark`. */
static dpmf_status check_given(const dpmf_noise *noise, int bound, const uint8_t mark[NOISE_MAC]) {
    uint8_t held[NOISE_MAC];
    int found = 0;
    if (noise->state == NULL || noise->step >= noise_state_reserved(noise->state)) return DPMF_OK;
    TRY(noise_state_marked(noise->state, noise->step, held, &found));
    if (found && !bound)
        return base_fail(
            DPMF_ERROR_ARGUMENT,
            "row %" PRId64
            " was used for a named sum, and is given again for that sum only: name it with dpmf_noise_bind_sum",
            noise->step);
    if (!found && bound)
        return base_fail(
            DPMF_ERROR_ARGUMENT,
            "row %" PRId64
            " was used, but the state file does not record for which sum: it cannot be added to a sum again",
            noise->step);
    if (found && CRYPTO_memcmp(held, mark, sizeof held) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "row %" PRId64 " was used for another sum than that of step %" PRId64
                         " now: the difference of the two would have no noise, and nothing is released",
                         noise->step, noise->step);
    return DPMF_OK;
}

dpmf_status noise_check_bound(const dpmf_noise *noise) {
    return check_given(noise, noise->bound, noise->mark);
}

dpmf_status dpmf_noise_bind_sum(dpmf_noise *noise, const uint8_t digest[DPMF_DIGEST_SIZE]) {
    uint8_t mark[NOISE_MAC];
    TRY(noise_check_usable(noise));
    if (digest == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_noise_bind_sum: the digest is NULL");
    if (noise->state == NULL) return DPMF_OK;
    TRY(noise_state_mark(noise->state, noise->step, digest, mark));
    TRY(check_given(noise, 1, mark));
    memcpy(noise->mark, mark, sizeof mark);
    noise->bound = 1;
    return DPMF_OK;
}

dpmf_status noise_check_usable(const dpmf_noise *noise) {
    if (noise == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "noise: the stream is NULL");
    if (noise->pid != getpid())
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "this noise stream belongs to process %lld, which forked: two "
                         "processes would give the same rows",
                         (long long)noise->pid);
    if (noise->ended)
        return base_fail(DPMF_ERROR_IO, "this noise stream has ended: its state file could not be written");
    return DPMF_OK;
}

dpmf_status noise_check_seek(const dpmf_noise *noise, int64_t step) {
    TRY(noise_check_usable(noise));
    if (step < 0 || step > noise->binding.steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "row %" PRId64 ", accepted 0 to %" PRId64, step, noise->binding.steps);
    if (noise->state == NULL) return DPMF_OK;
    const int64_t reserved = noise_state_reserved(noise->state);
    if (step > reserved)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "row %" PRId64 ": the next row of the state file is %" PRId64 ", and rows may not be skipped",
                         step, reserved);
    if (step < reserved && !noise->replay)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "row %" PRId64
                         " has been reserved and may have been used (the next row of the state file is %" PRId64
                         "): only the option replay gives it again",
                         step, reserved);
    return DPMF_OK;
}
