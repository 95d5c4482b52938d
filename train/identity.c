/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run is: every setting that its values depend on, as text, one line "name: value" per field. A checkpoint keeps the
 * text, so that a message can name the field in which a resumed run differs; and the digest of it is the label of the noise, so that
 * two runs which differ in anything never add one row of noise to two sums. A run that is the same gives the same values
 * again, which reveals no more than the first time.
 *
 * Which part of how many a process is belongs to the checkpoint, but not to the label: the parts of a run share its noise.
 */
#include "train/train.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "crypto/crypto.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * The arithmetic of the sums: a library whose sums of the same run may differ in a bit (kernels, orders, exp and tanh,
 * clipping) has another number here, or the difference of two runs under one row of noise would be the sums' alone.
 * 1: users' derivatives scaled before they are summed; 2: users' gradients as measured, zero for subnormal numbers;
 * 3: integers on a grid.
 */
enum { ARITHMETIC = 3 };

enum { IDENTITY_SIZE = 4096 }; /* some 25 lines, none of which has more than 100 bytes */

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

static dpmf_status add_schedule(base_text *w, const dpmf_trainer *t) {
    char digest[65] = "constant";
    const base_part part = {t->stepper.schedule, (size_t)t->steps * sizeof(double)};
    if (t->stepper.schedule != NULL) TRY(base_sha256(1, &part, digest));
    add_text(w, "schedule", digest);
    return DPMF_OK;
}

static void add_optimizer(base_text *w, const dpmf_trainer_options *o) {
    add_text(w, "optimizer", o->optimizer == DPMF_OPTIMIZER_ADAM ? "adam" : "sgd");
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
}

static void add_run(base_text *w, const dpmf_trainer *t) {
    const dpmf_trainer_options *o = &t->options;
    char model[32] = "softmax";
    if (o->hidden > 0) snprintf(model, sizeof model, "mlp:%" PRId64, o->hidden);
    add_text(w, "mechanism", dpmf_mechanism_get(t->mechanism).digest);
    add_text(w, "data", t->data->digest);
    add_text(w, "model", model);
    add_integer(w, "seed", (int64_t)o->seed);
    add_text(w, "unit", o->by_unit ? "user" : "example");
    add_double(w, "clip", o->clip);
    add_double(w, "zero above", o->zero_above);
    add_text(w, "noise", o->noiseless ? "none" : o->exact ? "private, exact" : "private");
    add_text(w, "sampler", dpmf_sampler_get(t->sampler).text);
    add_integer(w, "units", dpmf_sampler_identify(t->sampler).units);
    add_text(w, "sampler's key", dpmf_sampler_identify(t->sampler).key);
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
    add_run(&w, t);
    add_optimizer(&w, &t->options);
    TRY_DONE(add_schedule(&w, t));
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
static const char *value_of(const char *line, char out[72]) {
    const size_t name = strcspn(line, ":\n"), length = strcspn(line, "\n");
    const size_t from = name + 2 < length ? name + 2 : length, shown = length - from < 70 ? length - from : 70;
    memcpy(out, line + from, shown);
    out[shown] = '\0';
    return out;
}

dpmf_status train_identity_compare(const char *held, const char *own, const char *path) {
    char shown[BASE_SHOWN_PATH], there[72], here[72];
    for (;;) {
        const size_t a = strcspn(held, "\n"), b = strcspn(own, "\n");
        if (a != b || memcmp(held, own, a) != 0) break;
        if (held[a] == '\0') return DPMF_OK;
        held += a + 1;
        own += b + 1;
    }
    const int name = (int)strcspn(own, ":\n");
    return base_fail(DPMF_ERROR_ARGUMENT, "the checkpoint '%s' belongs to another run: %.*s is %s in it and %s here",
                     base_show_path(path, shown), name, own, value_of(held, there), value_of(own, here));
}
