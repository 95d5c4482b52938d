/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of a training run.
 *
 *     magic (16)   sizes of the five pieces, and the step (6 x 8)
 *     identity     text: which run it is
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
#include "base/status.h"
#include "crypto/crypto.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

/*
 * What a run is: every setting that its values depend on, as text, one line "name: value" per field. A checkpoint keeps the
 * text, so that a message can name the field in which a resumed run differs; and the digest of it is the label of the noise, so that
 * two runs which differ in anything never add one row of noise to two sums. A run that is the same gives the same values
 * again, which reveals no more than the first time.
 *
 * Which part of how many a process is belongs to the checkpoint, but not to the label: the parts of a run share its noise.
 */

/*
 * The arithmetic of the sums: a library whose sums of the same run may differ in a bit (kernels, orders, exp and tanh,
 * clipping) has another number here, or the difference of two runs under one row of noise would be the sums' alone.
 * 1: users' derivatives scaled before they are summed; 2: users' gradients as measured, zero for subnormal numbers;
 * 3: integers on a grid.
 */
enum { ARITHMETIC = 3 };

enum { IDENTITY_SIZE = 4096 }; /* some 30 lines, none of which has more than 100 bytes */

static void add_text(base_text *w, const char *name, const char *value) {
    base_text_add(w, "%s: %s\n", name, value);
}

static void add_integer(base_text *w, const char *name, int64_t value) {
    base_text_add(w, "%s: %" PRId64 "\n", name, value);
}

static void add_double(base_text *w, const char *name, double value) {
    char text[32] = "inf";
    if (isfinite(value)) base_format_double(value, text);
    add_text(w, name, text);
}

/* A line per setting that the optimizer has. */
static void add_optimizer(base_text *w, const dpmf_trainer_options *o) {
    static const char *const names[] = {"sgd", "adam", "adagrad", "rmsprop", "ftrl"};
    static const char *const sets[] = {"none", "ball", "box", "simplex"};
    static const char *const regularizers[] = {"squared distance", "l1", "entropy"};
    add_text(w, "optimizer", names[o->optimizer]);
    add_double(w, "learning rate", o->learning_rate);
    if (o->optimizer == DPMF_OPTIMIZER_ADAM) {
        add_double(w, "beta1", o->beta1);
        add_double(w, "beta2", o->beta2);
        add_double(w, "adam epsilon", o->adam_epsilon);
    } else {
        add_double(w, "momentum", o->momentum);
        add_integer(w, "nesterov", o->nesterov != 0);
    }
    add_double(w, "decay", o->decay);
    if (o->precondition > 0.0) add_double(w, "precondition", o->precondition);
    if (o->correct != 0) add_text(w, "squares", "corrected");
    if (o->optimizer == DPMF_OPTIMIZER_RMSPROP) add_double(w, "smoothing", o->smoothing);
    if (o->optimizer == DPMF_OPTIMIZER_ADAGRAD || o->optimizer == DPMF_OPTIMIZER_RMSPROP)
        add_double(w, "epsilon", o->adam_epsilon);
    if (o->optimizer != DPMF_OPTIMIZER_FTRL) return;
    add_text(w, "constraint", sets[o->constraint]);
    add_double(w, "radius", o->radius);
    add_text(w, "regularizer", regularizers[o->regularizer]);
    add_double(w, "l1", o->l1);
}

dpmf_status train_identify(const dpmf_trainer *t, const uint8_t key[DPMF_KEY_SIZE], char **identity, char shared[65]) {
    dpmf_status status = DPMF_OK;
    uint8_t commitment[32];
    char shown[33], *made = NULL;
    TRY(crypto_key_derive(key, "dpmf trainer key commitment 1", "", commitment));
    for (int i = 0; i < 16; i++) /* enough to tell keys apart */
        snprintf(shown + 2 * i, 3, "%02x", commitment[i]);
    TRY(base_alloc(IDENTITY_SIZE, 1, "the identity of a run", (void **)&made));
    base_text w = {made, IDENTITY_SIZE, 0};
    add_text(&w, "key", shown);
    add_integer(&w, "arithmetic", ARITHMETIC);
    const dpmf_trainer_options *o = &t->options;
    char model[32] = "softmax";
    if (o->hidden > 0) snprintf(model, sizeof model, "mlp:%" PRId64, o->hidden);
    add_text(&w, "mechanism", dpmf_mechanism_get(t->mechanism).digest);
    add_text(&w, "data", t->data->digest);
    add_text(&w, "model", model);
    add_integer(&w, "seed", (int64_t)o->seed);
    add_text(&w, "unit", o->by_unit ? "user" : "example");
    add_double(&w, "clip", o->clip);
    add_double(&w, "zero above", o->zero_above);
    /* Lines of options that are off are left out: runs from before they existed keep their noise and their checkpoints. */
    if (o->gamma > 0) add_double(&w, "normalised by", o->gamma);
    if (o->zero_largest) add_text(&w, "zero by", "the largest coordinate");
    if (o->local_steps > 0) {
        add_integer(&w, "local steps", o->local_steps);
        add_double(&w, "local rate", o->local_rate);
        add_integer(&w, "local batch", o->local_batch);
    }
    add_text(&w, "noise", o->noiseless ? "none" : o->exact ? "private, exact" : "private");
    add_text(&w, "sampler", dpmf_sampler_get(t->sampler).text);
    add_integer(&w, "units", dpmf_sampler_identify(t->sampler).units);
    add_text(&w, "sampler's key", dpmf_sampler_identify(t->sampler).key);
    add_optimizer(&w, o);
    char digest[65] = "constant";
    const base_part schedule = {t->stepper.schedule, (size_t)t->steps * sizeof(double)};
    if (t->stepper.schedule != NULL) TRY_DONE(base_sha256(1, &schedule, digest));
    add_text(&w, "schedule", digest);
    /* The label is often made of the above: what differs there is said first. */
    add_text(&w, "sampler's label", dpmf_sampler_identify(t->sampler).label);
    const base_part part = {w.out, w.length};
    TRY_DONE(base_sha256(1, &part, shared));
    add_integer(&w, "part", t->options.part);
    add_integer(&w, "parts", t->options.parts);
    assert(w.length < IDENTITY_SIZE);
    *identity = made;
    made = NULL;
done:
    base_free(made);
    return status;
}

/* The value of a line "name: value\n", cut to what a message can show. */
static void value_of(const char *line, char out[72]) {
    const size_t name = strcspn(line, ":\n"), length = strcspn(line, "\n");
    const size_t from = name + 2 < length ? name + 2 : length, shown = length - from < 70 ? length - from : 70;
    memcpy(out, line + from, shown);
    out[shown] = '\0';
}

/* Has the text a line of the same name? */
static int has_line(const char *text, const char *line) {
    const size_t name = strcspn(line, ":\n") + 1;
    while (*text != '\0') {
        if (strncmp(text, line, name) == 0) return 1;
        text += strcspn(text, "\n");
        text += *text != '\0';
    }
    return 0;
}

/* Refuses a text that is not the trainer's own identity; the message names the first field that differs. */
static dpmf_status compare_identity(const char *held, const char *own, const char *path) {
    char shown[BASE_SHOWN_PATH], there[72], here[72];
    const char *all_held = held, *all_own = own;
    for (;;) {
        const size_t a = strcspn(held, "\n"), b = strcspn(own, "\n");
        if (a != b || memcmp(held, own, a) != 0) break;
        if (held[a] == '\0') return DPMF_OK;
        held += a + 1;
        own += b + 1;
    }
    /* A field that only one of them has is off in the other. */
    value_of(held, there);
    value_of(own, here);
    const char *field = own;
    if (!has_line(all_own, held)) {
        field = held;
        snprintf(here, sizeof here, "off");
    } else if (!has_line(all_held, own)) {
        snprintf(there, sizeof there, "off");
    }
    return base_fail(DPMF_ERROR_ARGUMENT, "the checkpoint '%s' belongs to another run: %.*s is %s in it and %s here",
                     base_show_path(path, shown), (int)strcspn(field, ":\n"), field, there, here);
}

/* ---- checkpoints ---- */

static const char MAGIC[17] = "dpmf trainer 1\n\n";
static const char WHAT[] = "checkpoint";

enum { IDENTITY, WEIGHTS, OPTIMIZER, SAMPLER, NOISE, PIECES, HEAD = 16 + (PIECES + 1) * 8, MAC = 32 };

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
    if (at != whole - MAC)
        return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is damaged: its sizes do not add up", shown);
    return DPMF_OK;
}

static dpmf_status check_path(const dpmf_trainer *trainer, const char *path) {
    if (trainer == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the trainer is NULL");
    if (path == NULL || *path == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    return DPMF_OK;
}

static dpmf_status authenticate(const dpmf_trainer *t, const uint8_t *bytes, int64_t size, uint8_t out[MAC]) {
    unsigned length = 0;
    if (HMAC(EVP_sha256(), t->mac_key, sizeof t->mac_key, bytes, (size_t)size, out, &length) == NULL)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute an HMAC");
    return DPMF_OK;
}

dpmf_status dpmf_trainer_save(dpmf_trainer *t, const char *path) {
    dpmf_status status = DPMF_OK;
    char shown[BASE_SHOWN_PATH];
    uint8_t *bytes = NULL, *sampler = NULL, *noise = NULL;
    size_t sampler_size = 0, noise_size = 0;
    int64_t whole = 0;
    TRY(check_path(t, path));
    if (dpmf_sampler_get(t->sampler).step != t->step) TRY(dpmf_sampler_seek(t->sampler, t->step));
    TRY(dpmf_sampler_encode(t->sampler, &sampler, &sampler_size));
    layout l = {.step = t->step};
    if (t->noise != NULL) {
        if (dpmf_noise_get(t->noise).step != t->step) /* after a step that failed */
            TRY_DONE(dpmf_noise_seek(t->noise, t->step));
        TRY_DONE(dpmf_noise_encode(t->noise, &noise, &noise_size));
    }
    l.size[IDENTITY] = (int64_t)strlen(t->identity) + 1;
    l.size[WEIGHTS] = t->model.dim * (int64_t)sizeof(float);
    l.size[OPTIMIZER] = t->stepper.states * l.size[WEIGHTS];
    l.size[SAMPLER] = (int64_t)sampler_size;
    l.size[NOISE] = (int64_t)noise_size;
    whole = HEAD + MAC;
    for (int i = 0; i < PIECES; i++)
        whole += l.size[i];
    TRY_DONE(place_pieces(&l, whole, base_show_path(path, shown)));
    TRY_DONE(base_alloc(whole, 1, "a checkpoint", (void **)&bytes));
    memcpy(bytes, MAGIC, 16);
    memcpy(bytes + 16, l.size, sizeof l.size);
    memcpy(bytes + 16 + sizeof l.size, &l.step, 8);
    memcpy(bytes + l.at[IDENTITY], t->identity, (size_t)l.size[IDENTITY]);
    memcpy(bytes + l.at[WEIGHTS], t->weights, (size_t)l.size[WEIGHTS]);
    if (l.size[OPTIMIZER] > 0) memcpy(bytes + l.at[OPTIMIZER], t->stepper.state, (size_t)l.size[OPTIMIZER]);
    memcpy(bytes + l.at[SAMPLER], sampler, (size_t)l.size[SAMPLER]);
    if (l.size[NOISE] > 0) memcpy(bytes + l.at[NOISE], noise, (size_t)l.size[NOISE]);
    TRY_DONE(authenticate(t, bytes, l.covered, bytes + l.covered));
    TRY_DONE(crypto_secret_create(path, WHAT, bytes, (size_t)whole, 1, NULL, NULL));
done:
    crypto_wipe_free(bytes, whole);
    crypto_wipe_free(noise, (int64_t)noise_size);
    dpmf_bytes_free(sampler);
    return status;
}

/* The whole file: of a trainer, with this key, authentic, of this run, and of the sizes that follow from it. */
static dpmf_status check_bytes(const dpmf_trainer *t, const char *path, const uint8_t *bytes, int64_t whole,
                               layout *l) {
    char shown[BASE_SHOWN_PATH];
    uint8_t mac[MAC];
    base_show_path(path, shown);
    if (whole < HEAD + MAC || memcmp(bytes, MAGIC, 16) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' is not a checkpoint of a training run", shown);
    memcpy(l->size, bytes + 16, sizeof l->size);
    memcpy(&l->step, bytes + 16 + sizeof l->size, 8);
    TRY(place_pieces(l, whole, shown));
    const char *held = (const char *)bytes + l->at[IDENTITY];
    if (l->size[IDENTITY] < 1 || held[l->size[IDENTITY] - 1] != '\0')
        return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is damaged: it does not name its run", shown);
    /* The first line of an identity is the key's; it can be compared before anything is authenticated. */
    const size_t a = strcspn(held, "\n"), b = strcspn(t->identity, "\n");
    if (!(a == b && memcmp(held, t->identity, a) == 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "the checkpoint '%s' belongs to another run: it has another key", shown);
    TRY(authenticate(t, bytes, l->covered, mac));
    if (CRYPTO_memcmp(mac, bytes + l->covered, sizeof mac) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' has been changed: its authentication does not match",
                         shown);
    TRY(compare_identity(held, t->identity, path));
    const int64_t weights = t->model.dim * (int64_t)sizeof(float);
    if (l->size[WEIGHTS] != weights || l->size[OPTIMIZER] != t->stepper.states * weights || l->step < 0 ||
        l->step > t->steps)
        return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is damaged: its sizes are those of another model",
                         shown);
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
    /* Sampler and noise can fail, and come first; after a failure the next step seeks to its own place. */
    TRY_DONE(dpmf_sampler_decode(t->sampler, bytes + l.at[SAMPLER], (size_t)l.size[SAMPLER]));
    if (t->noise != NULL) TRY_DONE(dpmf_noise_decode(t->noise, l.step, bytes + l.at[NOISE], (size_t)l.size[NOISE]));
    memcpy(t->weights, bytes + l.at[WEIGHTS], (size_t)l.size[WEIGHTS]);
    if (l.size[OPTIMIZER] > 0) memcpy(t->stepper.state, bytes + l.at[OPTIMIZER], (size_t)l.size[OPTIMIZER]);
    t->step = l.step;
done:
    crypto_wipe_free(bytes, whole);
    return status;
}
