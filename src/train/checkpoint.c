/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of a training run.
 *
 *     magic (16)   sizes of the five pieces, and the step (6 x 8)
 *     identity     text: which run it is (train/identity.c)
 *     weights, optimizer, sampler, noise buffers
 *     HMAC-SHA256 of all before, under a key of its own
 *
 * The file appears whole or not at all, for its owner alone: noise buffers tell the noise. Nothing of it is used before
 * all of it has been authenticated; only the key's commitment is looked at first, to say that the key is another. A run
 * that is resumed repeats the steps since its last checkpoint with the same batches and the same noise, so that nothing
 * is released twice in two forms.
 */
#include "train/train.h"

#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"
#include "noise/noise.h"
#include "sampler/sampler.h"

#include <inttypes.h>
#include <string.h>

static const char MAGIC[17] = "dpmf trainer 1\n\n";
static const char WHAT[] = "checkpoint";

enum { IDENTITY, WEIGHTS, OPTIMIZER, SAMPLER, NOISE, PIECES, HEAD = 16 + (PIECES + 1) * 8 };

typedef struct layout {
    int64_t size[PIECES], step;
    int64_t at[PIECES], covered; /* where pieces begin; all before the HMAC */
} layout;

/* Refuses sizes that do not add up to the file. */
static dpmf_status place_pieces(layout *l, int64_t whole, const char *shown) {
    int64_t at = HEAD;
    for (int i = 0; i < PIECES; i++) {
        if (l->size[i] < 0 || l->size[i] > whole - at)
            return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is damaged: its sizes do not add up", shown);
        l->at[i] = at;
        at += l->size[i];
    }
    l->covered = at;
    if (at != whole - NOISE_MAC)
        return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is damaged: its sizes do not add up", shown);
    return DPMF_OK;
}

static dpmf_status check_path(const dpmf_trainer *trainer, const char *path) {
    if (trainer == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the trainer is NULL");
    if (path == NULL || *path == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    return DPMF_OK;
}

static int64_t noise_size(const dpmf_trainer *t) {
    return t->noise != NULL ? noise_stream_state_size(t->noise->stream) : 0;
}

/* ---- save ---- */

static dpmf_status save_noise(const dpmf_trainer *t, uint8_t *bytes) {
    if (t->noise == NULL) return DPMF_OK;
    if (dpmf_noise_get(t->noise).step != t->step)
        TRY(dpmf_noise_seek(t->noise, t->step)); /* after a step that failed */
    TRY(noise_check_usable(t->noise));
    TRY(noise_take_stream(t->noise));
    return noise_stream_state_save(t->noise->stream, bytes);
}

static dpmf_status fill_checkpoint(const dpmf_trainer *t, const layout *l, const uint8_t *sampler, uint8_t *bytes) {
    memcpy(bytes, MAGIC, 16);
    memcpy(bytes + 16, l->size, sizeof l->size);
    memcpy(bytes + 16 + sizeof l->size, &l->step, 8);
    memcpy(bytes + l->at[IDENTITY], t->identity, (size_t)l->size[IDENTITY]);
    memcpy(bytes + l->at[WEIGHTS], t->weights, (size_t)l->size[WEIGHTS]);
    if (l->size[OPTIMIZER] > 0) memcpy(bytes + l->at[OPTIMIZER], t->stepper.state, (size_t)l->size[OPTIMIZER]);
    memcpy(bytes + l->at[SAMPLER], sampler, (size_t)l->size[SAMPLER]);
    TRY(save_noise(t, bytes + l->at[NOISE]));
    return noise_mac(t->mac_key, bytes, (size_t)l->covered, bytes + l->covered);
}

dpmf_status dpmf_trainer_save(dpmf_trainer *t, const char *path) {
    dpmf_status status = DPMF_OK;
    char shown[BASE_SHOWN_PATH];
    uint8_t *bytes = NULL, *sampler = NULL;
    size_t sampler_size = 0;
    int64_t whole = 0;
    TRY(check_path(t, path));
    if (dpmf_sampler_get(t->sampler).step != t->step) TRY(dpmf_sampler_seek(t->sampler, t->step));
    TRY(dpmf_sampler_encode(t->sampler, &sampler, &sampler_size));
    layout l = {.step = t->step};
    l.size[IDENTITY] = (int64_t)strlen(t->identity) + 1;
    l.size[WEIGHTS] = t->model.dim * (int64_t)sizeof(float);
    l.size[OPTIMIZER] = t->stepper.states * l.size[WEIGHTS];
    l.size[SAMPLER] = (int64_t)sampler_size;
    l.size[NOISE] = noise_size(t);
    whole = HEAD + NOISE_MAC;
    for (int i = 0; i < PIECES; i++)
        whole += l.size[i];
    TRY_DONE(place_pieces(&l, whole, base_show_path(path, shown)));
    TRY_DONE(base_alloc(whole, 1, "a checkpoint", (void **)&bytes));
    TRY_DONE(fill_checkpoint(t, &l, sampler, bytes));
    TRY_DONE(crypto_secret_create(path, WHAT, bytes, (size_t)whole, 1, NULL, NULL));
done:
    crypto_wipe_free(bytes, whole);
    dpmf_bytes_free(sampler);
    return status;
}

/* ---- load ---- */

/* The first line of an identity is the key's; it can be compared before anything is authenticated. */
static int same_key(const char *held, const char *own) {
    const size_t a = strcspn(held, "\n"), b = strcspn(own, "\n");
    return a == b && memcmp(held, own, a) == 0;
}

/* The whole file: of a trainer, with this key, authentic, of this run, and of the sizes that follow from it. */
static dpmf_status check_bytes(const dpmf_trainer *t, const char *path, const uint8_t *bytes, int64_t whole,
                               layout *l) {
    char shown[BASE_SHOWN_PATH];
    base_show_path(path, shown);
    if (whole < HEAD + NOISE_MAC || memcmp(bytes, MAGIC, 16) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' is not a checkpoint of a training run", shown);
    memcpy(l->size, bytes + 16, sizeof l->size);
    memcpy(&l->step, bytes + 16 + sizeof l->size, 8);
    TRY(place_pieces(l, whole, shown));
    const char *held = (const char *)bytes + l->at[IDENTITY];
    if (l->size[IDENTITY] < 1 || held[l->size[IDENTITY] - 1] != '\0')
        return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is damaged: it does not name its run", shown);
    if (!same_key(held, t->identity))
        return base_fail(DPMF_ERROR_ARGUMENT, "the checkpoint '%s' belongs to another run: it has another key", shown);
    TRY(noise_mac_check(t->mac_key, WHAT, path, bytes, whole));
    TRY(train_identity_compare(held, t->identity, path));
    const int64_t weights = t->model.dim * (int64_t)sizeof(float);
    if (l->size[WEIGHTS] != weights || l->size[OPTIMIZER] != t->stepper.states * weights || l->step < 0 ||
        l->step > t->steps)
        return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is damaged: its sizes are those of another model",
                         shown);
    return DPMF_OK;
}

/* Buffers of another size are those of another look-ahead: then rows are made again instead. */
static dpmf_status load_noise(dpmf_trainer *t, const layout *l, const uint8_t *bytes) {
    if (t->noise == NULL) return DPMF_OK;
    if (l->size[NOISE] != noise_size(t)) return dpmf_noise_seek(t->noise, l->step);
    return noise_adopt(t->noise, l->step, bytes + l->at[NOISE]);
}

/* Sampler and noise can fail, and come first; whatever they did, the next step seeks to its own place. */
static dpmf_status use_bytes(dpmf_trainer *t, const layout *l, const uint8_t *bytes) {
    TRY(dpmf_sampler_decode(t->sampler, bytes + l->at[SAMPLER], (size_t)l->size[SAMPLER]));
    TRY(load_noise(t, l, bytes));
    memcpy(t->weights, bytes + l->at[WEIGHTS], (size_t)l->size[WEIGHTS]);
    if (l->size[OPTIMIZER] > 0) memcpy(t->stepper.state, bytes + l->at[OPTIMIZER], (size_t)l->size[OPTIMIZER]);
    t->step = l->step;
    return DPMF_OK;
}

dpmf_status dpmf_trainer_load(dpmf_trainer *t, const char *path) {
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    int64_t whole = 0;
    layout l;
    TRY(check_path(t, path));
    TRY(crypto_secret_load(path, WHAT, &bytes, &whole));
    TRY_DONE(check_bytes(t, path, bytes, whole, &l));
    TRY_DONE(use_bytes(t, &l, bytes));
done:
    crypto_wipe_free(bytes, whole);
    return status;
}
