/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run is: every setting that its values depend on, as text, one line "name: value" a field. A checkpoint keeps the
 * text, so that a resumed run that differs can be told in what; and the digest of it is the label of the noise, so that
 * two runs which differ in anything never add one row of noise to two sums. A run that is the same gives the same values
 * again, which tells nobody more than the first time.
 *
 * Which part of how many a process is belongs to the checkpoint, but not to the label: the parts of a run share its noise.
 */
#include "train/train.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/crypto.h"
#include "sampler/sampler.h"

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

static void add_text(base_writer *w, const char *name, const char *value) {
    base_write_raw(w, name);
    base_write_raw(w, ": ");
    base_write_raw(w, value);
    base_write_raw(w, "\n");
}

static void add_integer(base_writer *w, const char *name, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    add_text(w, name, text);
}

static void add_double(base_writer *w, const char *name, double value) {
    char text[32] = "inf";
    if (isfinite(value)) base_format_double(value, text);
    add_text(w, name, text);
}

/* 16 bytes of a commitment are enough to tell keys apart. */
static void add_bytes(base_writer *w, const char *name, const uint8_t bytes[32]) {
    char text[33];
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    add_text(w, name, text);
}

static dpmf_status add_schedule(base_writer *w, const dpmf_trainer *t) {
    char digest[65] = "constant";
    const base_part part = {t->stepper.schedule, (size_t)t->steps * sizeof(double)};
    if (t->stepper.schedule != NULL) TRY(base_sha256(1, &part, digest));
    add_text(w, "schedule", digest);
    return DPMF_OK;
}

static void add_optimizer(base_writer *w, const dpmf_trainer_options *o) {
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

static void add_run(base_writer *w, const dpmf_trainer *t) {
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
    add_integer(w, "units", t->sampler->units);
    add_bytes(w, "sampler's key", t->sampler->commitment);
}

dpmf_status train_identify(const dpmf_trainer *t, const uint8_t key[DPMF_KEY_SIZE], char **identity, char shared[65]) {
    dpmf_status status = DPMF_OK;
    base_writer w = {0};
    uint8_t commitment[32];
    char *made = NULL;
    TRY(crypto_key_derive(key, "dpmf trainer key commitment 1", "", commitment));
    add_bytes(&w, "key", commitment);
    add_integer(&w, "arithmetic", ARITHMETIC);
    add_run(&w, t);
    add_optimizer(&w, &t->options);
    TRY_DONE(add_schedule(&w, t));
    add_text(&w, "sampler's label", t->sampler->label); /* often made of the above: what differs there is said first */
    TRY_DONE(w.status);
    const base_part part = {w.text, w.length};
    TRY_DONE(base_sha256(1, &part, shared));
    add_integer(&w, "part", t->options.part);
    add_integer(&w, "parts", t->options.parts);
    TRY_DONE(w.status);
    TRY_DONE(base_copy_text(w.text, &made));
    *identity = made;
done:
    base_writer_free(&w);
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
