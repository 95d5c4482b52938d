/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a sampler as bytes: the sampler, the step, the past where it matters, and an HMAC-SHA256 of all bytes
 * before (little-endian):
 *
 *     0 magic (16)   16 format, 20 version of the batches   24 units, 32 steps, 40 step, 48 offered, 56 size of the past
 *     64 text (64)   128 SHA-256 of the label (64)   192 commitment to the key (32)   224 the past   HMAC (32)
 *
 * The key of the HMAC and the commitment depend on the master key alone, so that another sampler of the same key can
 * name the difference. The past contains participations: it is as secret as the batches.
 */
#include "sampler/sampler.h"

#include "base/memory.h"
#include "crypto/crypto.h"
#include "noise/noise.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

static const char MAGIC[17] = "dpmf sampler st\n";
enum { FORMAT_VERSION = 1 };

typedef struct fields {
    char magic[16];
    uint32_t format, version;
    int64_t units, steps, step, offered, past;
    char text[64], label[64];
    uint8_t commitment[32];
} fields;

_Static_assert(offsetof(fields, text) == 64 && sizeof(fields) == 224, "the layout of the bytes");

dpmf_status sampler_keys(const uint8_t master[32], dpmf_sampler *s) {
    TRY(crypto_key_derive(master, "dpmf sampler state authentication 1", "", s->mac_key));
    return crypto_key_derive(master, "dpmf sampler key commitment 1", "", s->commitment);
}

static fields fields_of(const dpmf_sampler *s) {
    fields f;
    memset(&f, 0, sizeof f);
    memcpy(f.magic, MAGIC, sizeof f.magic);
    f.format = FORMAT_VERSION;
    f.version = SAMPLER_VERSION;
    f.units = s->units;
    f.steps = s->steps;
    f.step = s->step;
    f.offered = s->offered;
    f.past = s->ops->past_size == NULL ? 0 : s->ops->past_size(s);
    memcpy(f.text, s->plan.text, strlen(s->plan.text));
    memcpy(f.label, s->label, strlen(s->label));
    memcpy(f.commitment, s->commitment, sizeof f.commitment);
    return f;
}

dpmf_sampler_identity dpmf_sampler_identify(const dpmf_sampler *s) {
    dpmf_sampler_identity info = {.units = s->units, .steps = s->steps, .offered = s->offered};
    for (int i = 0; i < 16; i++) /* enough to tell keys apart */
        snprintf(info.key + 2 * i, 3, "%02x", s->commitment[i]);
    memcpy(info.label, s->label, sizeof info.label);
    return info;
}

dpmf_status dpmf_sampler_encode(const dpmf_sampler *s, uint8_t **bytes, size_t *size) {
    const fields f = fields_of(s);
    const size_t covered = sizeof f + (size_t)f.past;
    uint8_t *made = NULL;
    TRY(base_alloc((int64_t)covered + NOISE_MAC, 1, "a sampler's state", (void **)&made));
    memcpy(made, &f, sizeof f);
    if (f.past > 0) s->ops->past_save(s, made + sizeof f);
    const dpmf_status status = noise_mac(s->mac_key, made, covered, made + covered);
    if (status == DPMF_OK) {
        *bytes = made;
        *size = covered + NOISE_MAC;
    } else
        sampler_release(made, (int64_t)covered + NOISE_MAC, 1);
    return status;
}

static dpmf_status refuse_other(const char *field) {
    return base_fail(DPMF_ERROR_ARGUMENT, "the sampler's state belongs to another sampler: it has another %s", field);
}

static dpmf_status authenticate(const dpmf_sampler *s, const fields *held, const uint8_t *bytes, size_t size) {
    uint8_t mac[NOISE_MAC];
    if (memcmp(held->magic, MAGIC, sizeof held->magic) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "not a sampler's state");
    if (held->format != FORMAT_VERSION || held->version != SAMPLER_VERSION)
        return base_fail(DPMF_ERROR_FORMAT,
                         "the sampler's state has format %" PRIu32 " and version %" PRIu32 ", accepted: %d and %d",
                         held->format, held->version, FORMAT_VERSION, SAMPLER_VERSION);
    if (CRYPTO_memcmp(held->commitment, s->commitment, sizeof held->commitment) != 0) return refuse_other("key");
    TRY(noise_mac(s->mac_key, bytes, size - NOISE_MAC, mac));
    if (CRYPTO_memcmp(mac, bytes + size - NOISE_MAC, sizeof mac) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "the sampler's state has been changed: its authentication does not match");
    return DPMF_OK;
}

static dpmf_status compare_samplers(const fields *held, const fields *now) {
    if (memcmp(held->text, now->text, sizeof held->text) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the sampler's state belongs to another sampler: %.63s in it and %.63s here", held->text,
                         now->text);
    if (held->units != now->units)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the sampler's state belongs to another sampler: %" PRId64 " units in it and %" PRId64 " here",
                         held->units, now->units);
    if (held->steps != now->steps)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the sampler's state belongs to another sampler: %" PRId64 " steps in it and %" PRId64 " here",
                         held->steps, now->steps);
    if (memcmp(held->label, now->label, sizeof held->label) != 0) return refuse_other("label");
    return DPMF_OK;
}

dpmf_status dpmf_sampler_decode(dpmf_sampler *s, const uint8_t *bytes, size_t size) {
    const fields now = fields_of(s);
    fields held;
    if (bytes == NULL || size < sizeof held + NOISE_MAC)
        return base_fail(DPMF_ERROR_FORMAT, "a sampler's state of %zu bytes, accepted: at least %zu", size,
                         sizeof held + NOISE_MAC);
    memcpy(&held, bytes, sizeof held);
    TRY(authenticate(s, &held, bytes, size));
    TRY(compare_samplers(&held, &now));
    if (held.past != now.past || size - sizeof held - NOISE_MAC != (size_t)now.past)
        return base_fail(DPMF_ERROR_FORMAT, "a sampler's state of %zu bytes, accepted for this sampler: %zu", size,
                         sizeof held + (size_t)now.past + NOISE_MAC);
    if (held.step < 0 || held.step > s->steps)
        return base_fail(DPMF_ERROR_FORMAT, "a sampler's state at step %" PRId64 ", accepted: 0 to %" PRId64, held.step,
                         s->steps);
    if (now.past > 0 && !s->ops->past_load(s, bytes + sizeof held))
        return base_fail(DPMF_ERROR_FORMAT, "a sampler's state with a past that no run of %" PRId64 " steps can have",
                         s->steps);
    s->step = held.step;
    s->offered = held.offered != 0;
    return DPMF_OK;
}
