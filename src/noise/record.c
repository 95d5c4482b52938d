/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record that binds a file to a stream. Body (little-endian, zeros to 480 bytes), then its HMAC-SHA256:
 *
 *     0 magic (16)   16 format, 20 stream version, 24 precision, 28 kind   32 steps, 40 dim, 48 offset, 56 count
 *     64 clip        72 digest of the mechanism (64)   136 SHA-256 of the label (64)   200 commitment to the key (32)
 *     232 grid of the exact release, 0 elsewhere   240 sigma   248 salt (32), zeros in a checkpoint without a state file
 *
 * The commitment is a subkey with a separate label: it identifies the key and reveals nothing about it. The commitment and
 * the key of the HMAC depend on the master key alone: a stream of another mechanism can still authenticate the record and
 * name what differs.
 */
#include "noise/record.h"

#include "base/file.h"
#include "crypto/crypto.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

static const char MAGIC[17] = "dpmf noise file\n";

typedef struct fields {
    char magic[16];
    uint32_t format, stream_version, precision, kind;
    int64_t steps, dim, offset, count;
    double clip;
    char digest[64], label[64];
    uint8_t commitment[32];
    double grid, sigma;
    uint8_t salt[DPMF_SALT_SIZE];
} fields;

_Static_assert(offsetof(fields, clip) == 64 && offsetof(fields, commitment) == 200, "the layout of the file");
_Static_assert(sizeof(fields) == 280, "no padding");

dpmf_status noise_binding_keys(const uint8_t master[32], noise_binding *binding) {
    TRY(crypto_key_derive(master, "dpmf noise file authentication 1", "", binding->mac_key));
    TRY(crypto_key_derive(master, "dpmf noise sums 1", "", binding->sum_key));
    return crypto_key_derive(master, "dpmf noise key commitment 1", "", binding->commitment);
}

static const char *precision_name(uint32_t precision) {
    return precision == DPMF_FLOAT32 ? "float32" : "float64";
}

/* The bits of a double, so that no two numbers share a text. */
static uint64_t bits_of(double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

dpmf_status noise_binding_seed_key(const uint8_t master[32], const noise_binding *b, uint8_t subkey[32]) {
    char salt[2 * DPMF_SALT_SIZE + 1], info[400];
    for (int i = 0; i < DPMF_SALT_SIZE; i++)
        snprintf(salt + 2 * i, 3, "%02x", b->salt[i]);
    snprintf(info, sizeof info, "%s/%s/%s/%" PRId64 "/%016" PRIx64 "/%016" PRIx64 "/%016" PRIx64 "/%s", b->digest,
             b->label, precision_name((uint32_t)b->precision), b->dim, bits_of(b->clip), bits_of(b->sigma),
             bits_of(b->grid), salt);
    return crypto_key_derive(master, "dpmf noise stream 2", info, subkey);
}

dpmf_status noise_mac(const uint8_t key[32], const void *bytes, size_t size, uint8_t out[NOISE_MAC]) {
    unsigned int length = 0;
    if (HMAC(EVP_sha256(), key, 32, bytes, size, out, &length) == NULL || length != NOISE_MAC)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute an HMAC");
    return DPMF_OK;
}

dpmf_status noise_mac_check(const uint8_t key[32], const char *what, const char *path, const uint8_t *bytes,
                            int64_t size) {
    char shown[BASE_SHOWN_PATH];
    uint8_t mac[NOISE_MAC];
    const int64_t covered = size - NOISE_MAC;
    TRY(noise_mac(key, bytes, (size_t)covered, mac));
    if (CRYPTO_memcmp(mac, bytes + covered, sizeof mac) == 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT, "the %s '%s' has been changed: its authentication does not match", what,
                     base_show_path(path, shown));
}

static fields fields_of(const noise_binding *binding, noise_record_kind kind) {
    fields f;
    memset(&f, 0, sizeof f);
    memcpy(f.magic, MAGIC, sizeof f.magic);
    f.format = 3; /* 1 and 2 had no salt, and belong to stream version 1 */
    f.stream_version = DPMF_STREAM_VERSION;
    f.precision = (uint32_t)binding->precision;
    f.kind = (uint32_t)kind;
    f.steps = binding->steps;
    f.dim = binding->dim;
    f.offset = binding->offset;
    f.count = binding->count;
    f.clip = binding->clip;
    f.grid = binding->grid;
    f.sigma = binding->sigma;
    memcpy(f.salt, binding->salt, sizeof f.salt);
    memcpy(f.digest, binding->digest, strlen(binding->digest));
    memcpy(f.label, binding->label, strlen(binding->label));
    memcpy(f.commitment, binding->commitment, sizeof f.commitment);
    return f;
}

dpmf_status noise_record_make(const noise_binding *binding, noise_record_kind kind, uint8_t record[NOISE_RECORD]) {
    const fields f = fields_of(binding, kind);
    uint8_t made[NOISE_RECORD] = {0};
    memcpy(made, &f, sizeof f);
    TRY(noise_mac(binding->mac_key, made, NOISE_RECORD_BODY, made + NOISE_RECORD_BODY));
    memcpy(record, made, sizeof made);
    return DPMF_OK;
}

void noise_record_shard(const uint8_t record[NOISE_RECORD], int64_t *offset, int64_t *count) {
    memcpy(offset, record + offsetof(fields, offset), sizeof *offset);
    memcpy(count, record + offsetof(fields, count), sizeof *count);
}

const uint8_t *noise_record_salt(const uint8_t record[NOISE_RECORD]) {
    return record + offsetof(fields, salt);
}

static dpmf_status differ_integer(const char *what, const char *shown, const char *field, int64_t held, int64_t now) {
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "the %s '%s' belongs to another stream: %s is %" PRId64 " in it and %" PRId64 " here", what, shown,
                     field, held, now);
}

static dpmf_status compare_records(const fields *held, const fields *now, const char *what, const char *shown) {
    if (memcmp(held->digest, now->digest, sizeof held->digest) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the %s '%s' belongs to another stream: the mechanism has digest %.12s... in it and "
                         "%.12s... here",
                         what, shown, held->digest, now->digest);
    if (held->steps != now->steps) return differ_integer(what, shown, "the number of steps", held->steps, now->steps);
    if (held->dim != now->dim) return differ_integer(what, shown, "dim", held->dim, now->dim);
    if (memcmp(&held->clip, &now->clip, sizeof held->clip) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the %s '%s' belongs to another stream: clip is %.17g in it and %.17g "
                         "here",
                         what, shown, held->clip, now->clip);
    if ((held->grid > 0) != (now->grid > 0))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the %s '%s' belongs to another stream: it is for %s noise, but this stream is %s", what,
                         shown, held->grid > 0 ? "exact" : "plain", now->grid > 0 ? "exact" : "plain");
    if (memcmp(&held->grid, &now->grid, sizeof held->grid) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the %s '%s' belongs to another stream: the grid is %.17g in it and %.17g here", what, shown,
                         held->grid, now->grid);
    if (held->precision != now->precision)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the %s '%s' belongs to another stream: the precision is %s in it and %s here", what, shown,
                         precision_name(held->precision), precision_name(now->precision));
    if (memcmp(&held->sigma, &now->sigma, sizeof held->sigma) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the %s '%s' belongs to another stream: sigma is %.17g in it and %.17g here", what, shown,
                         held->sigma, now->sigma);
    if (held->offset != now->offset) return differ_integer(what, shown, "offset", held->offset, now->offset);
    if (held->count != now->count) return differ_integer(what, shown, "count", held->count, now->count);
    if (memcmp(held->label, now->label, sizeof held->label) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "the %s '%s' belongs to another stream: it has another label", what,
                         shown);
    return DPMF_OK;
}

static int is_zero(const uint8_t salt[DPMF_SALT_SIZE]) {
    static const uint8_t none[DPMF_SALT_SIZE];
    return memcmp(salt, none, sizeof none) == 0;
}

dpmf_status noise_salt_check(const uint8_t held[DPMF_SALT_SIZE], const uint8_t now[DPMF_SALT_SIZE], const char *name) {
    if (memcmp(held, now, DPMF_SALT_SIZE) == 0) return DPMF_OK;
    if (is_zero(held))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the checkpoint%s belongs to a stream without a state file, and this stream has one", name);
    if (is_zero(now))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the checkpoint%s belongs to a stream with a state file, and this stream has none: give that "
                         "file",
                         name);
    return base_fail(
        DPMF_ERROR_ARGUMENT,
        "the checkpoint%s belongs to another state file than this stream's: its noise is that file's, and a "
        "run whose state file is lost cannot be resumed",
        name);
}

dpmf_status noise_record_check(const noise_binding *binding, noise_record_kind kind, const char *path,
                               const uint8_t record[NOISE_RECORD]) {
    const char *what = kind == NOISE_RECORD_CHECKPOINT ? "checkpoint" : "state file";
    const fields now = fields_of(binding, kind);
    char shown[BASE_SHOWN_PATH];
    fields held;
    memcpy(&held, record, sizeof held);
    base_show_path(path, shown);
    if (memcmp(held.magic, MAGIC, sizeof held.magic) != 0 || held.kind != now.kind)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' is not a %s of a %s", shown, what,
                         kind == NOISE_RECORD_COUNTER ? "counter" : "noise stream");
    if (held.format < 1 || held.format > now.format)
        return base_fail(DPMF_ERROR_FORMAT, "the %s '%s' has format %" PRIu32 ", accepted: 1 to %" PRIu32, what, shown,
                         held.format, now.format);
    if (held.stream_version != now.stream_version)
        return base_fail(DPMF_ERROR_FORMAT,
                         "the %s '%s' is of stream version %" PRIu32 ", accepted: %" PRIu32
                         " (another version gives other bits)",
                         what, shown, held.stream_version, now.stream_version);
    if (CRYPTO_memcmp(held.commitment, now.commitment, sizeof held.commitment) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "the %s '%s' belongs to another stream: it has another key", what, shown);
    TRY(noise_mac_check(binding->mac_key, what, path, record, NOISE_RECORD));
    TRY(compare_records(&held, &now, what, shown));
    if (kind == NOISE_RECORD_CHECKPOINT) {
        char name[BASE_SHOWN_PATH + 4];
        snprintf(name, sizeof name, " '%s'", shown);
        return noise_salt_check(held.salt, now.salt, name);
    }
    if (!binding->salted || memcmp(held.salt, now.salt, sizeof held.salt) == 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "the state file '%s' has another salt than this run: it belongs to another run", shown);
}
