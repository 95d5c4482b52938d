/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sum a row is for. Two sums that meet the same row give their difference away, and a run that is resumed may well
 * come to another sum in a step that it repeats: dropout, another order of additions, another machine. So the caller names
 * the sum by a digest before it takes the row; the state file keeps a mark of (row, digest), and a row that is asked for
 * again is given only for the mark that it has.
 */
#include "noise/noise.h"

#include "base/memory.h"
#include "crypto/crypto.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

/* ---- the state file of a stream ---- */

/* Where the state is kept: as asked, or beside the key. Allocated; NULL: nowhere. */
static dpmf_status state_path(const dpmf_noise_options *o, char **path) {
    static const char ending[] = ".state";
    if (o->state != NULL) return base_copy_text(o->state, path);
    if (o->key_file == NULL || o->rows_may_repeat) return DPMF_OK;
    const size_t length = strlen(o->key_file);
    TRY(base_alloc((int64_t)(length + sizeof ending), 1, "a path", (void **)path));
    memcpy(*path, o->key_file, length);
    memcpy(*path + length, ending, sizeof ending);
    return DPMF_OK;
}

/* A file that nobody named: say how it came to be asked. */
static dpmf_status explain(dpmf_status status, const dpmf_noise_options *o) {
    char words[600];
    if (status != DPMF_ERROR_ARGUMENT || o->state != NULL) return status;
    snprintf(words, sizeof words, "%s", dpmf_last_error());
    return base_fail(status, "%s; a key file serves one run: another run needs its own key or its own state file",
                     words);
}

dpmf_status noise_open_state(dpmf_noise *noise, const dpmf_noise_options *o) {
    dpmf_status status = DPMF_OK;
    noise_binding bound = noise->binding;
    char *path = NULL;
    if (o->whole_state) {
        bound.offset = 0;
        bound.count = bound.dim;
    }
    TRY_DONE(state_path(o, &path));
    if (path == NULL) goto done;
    TRY_DONE(explain(noise_state_open(path, &bound, noise->replay, &noise->state), o));
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
    if (status != DPMF_OK) noise->ended = 1; /* what is on the disk now is not known */
    return status;
}

/* ---- sums ---- */

/* A row that was given before: `bound` says whether the caller names a sum now, and `mark` which. */
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
