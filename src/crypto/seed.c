/* SPDX-License-Identifier: Apache-2.0 */
/* Seed noise Z: whole groups of 64 go straight to the caller's memory, the ends through a buffer (docs/noise.md). */
#include "crypto/crypto.h"

#include "base/memory.h"
#include "kernels/seed/seed.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct crypto_seed {
    kernels_seed_key key;
    const kernels_seed_set *kernels;
};

dpmf_status crypto_seed_open(const uint8_t subkey[32], crypto_seed **out) {
    return crypto_seed_open_with(kernels_seed_get(), subkey, out);
}

dpmf_status crypto_seed_open_with(const kernels_seed_set *kernels, const uint8_t subkey[32], crypto_seed **out) {
    crypto_seed *seed = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(1, sizeof *seed, "the expanded key", (void **)&seed));
    seed->kernels = kernels;
    TRY_DONE(seed->kernels->open(subkey, &seed->key));
    *out = seed;
    return DPMF_OK;
done:
    base_free(seed);
    return status;
}

void crypto_seed_close(crypto_seed *seed) {
    if (seed == NULL) return;
    seed->kernels->close(&seed->key);
    crypto_wipe(seed, sizeof *seed);
    base_free(seed);
}

static size_t size_of(dpmf_precision precision) {
    return precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
}

/* On failure the numbers become NaN, which a caller cannot mistake for noise. */
static void spoil(dpmf_precision precision, size_t count, void *out) {
    for (size_t i = 0; i < count; i++)
        if (precision == DPMF_FLOAT32)
            ((float *)out)[i] = NAN;
        else
            ((double *)out)[i] = NAN;
}

/* The kind of numbers: `scale` > 0 for exactly rounded ones, in double. */
typedef struct request {
    const crypto_seed *seed;
    dpmf_precision precision;
    double scale;
    uint64_t row;
} request;

static void fill_groups(const request *r, uint64_t group, size_t groups, void *out) {
    const kernels_seed_set *kernels = r->seed->kernels;
    const kernels_seed_key *key = &r->seed->key;
    const int good = r->scale > 0                   ? kernels->wholes(key, r->row, group, groups, r->scale, out)
                     : r->precision == DPMF_FLOAT32 ? kernels->floats(key, r->row, group, groups, out)
                                                    : kernels->doubles(key, r->row, group, groups, out);
    if (!good) spoil(r->precision, groups * KERNELS_SEED_GROUP, out);
}

/* Numbers skip .. skip + count - 1 of a group. */
static void fill_part(const request *r, uint64_t group, size_t skip, size_t count, void *out) {
    const size_t size = size_of(r->precision);
    union {
        float floats[KERNELS_SEED_GROUP];
        double doubles[KERNELS_SEED_GROUP];
    } whole;
    fill_groups(r, group, 1, &whole);
    memcpy(out, (const char *)&whole + skip * size, count * size);
    crypto_wipe(&whole, sizeof whole);
}

static void fill(const request *r, uint64_t first, size_t count, void *out) {
    const size_t size = size_of(r->precision), skip = (size_t)(first % KERNELS_SEED_GROUP);
    uint64_t group = first / KERNELS_SEED_GROUP;
    char *to = out;
    assert(r->row >> KERNELS_SEED_ROW_BITS == 0);
    assert(count == 0 || first + (count - 1) >= first);
    if (skip > 0 && count > 0) {
        const size_t here = count < KERNELS_SEED_GROUP - skip ? count : KERNELS_SEED_GROUP - skip;
        fill_part(r, group++, skip, here, to);
        to += here * size;
        count -= here;
    }
    const size_t groups = count / KERNELS_SEED_GROUP, rest = count % KERNELS_SEED_GROUP;
    if (groups > 0) fill_groups(r, group, groups, to);
    if (rest > 0) fill_part(r, group + groups, 0, rest, to + groups * KERNELS_SEED_GROUP * size);
}

void crypto_seed_fill(const crypto_seed *seed, dpmf_precision precision, uint64_t row, uint64_t first, size_t count,
                      void *out) {
    const request r = {seed, precision, 0, row};
    fill(&r, first, count, out);
}

void crypto_seed_fill_wholes(const crypto_seed *seed, double scale, uint64_t row, uint64_t first, size_t count,
                             double *out) {
    const request r = {seed, DPMF_FLOAT64, scale, row};
    assert(kernels_seed_is_scale(scale));
    fill(&r, first, count, out);
}
