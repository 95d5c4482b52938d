/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known answers. There is a small mechanism for each route of the kernel. When a device is opened, libdpmf makes some rows of
 * it, added to a pattern; before every stream the device makes the same rows, and they are compared bit for bit. The types
 * alternate from row to row, in another order for each of the two shards: one begins at an odd coordinate, where numbers are
 * written one by one, and one where they are written as vectors. Both have a pair of numbers whose radius word is small
 * (docs/noise.md): it is searched in the first row of independent noise, where the radius is then above sqrt(2 ln 2^12).
 *
 * A device that fuses a multiplication and an addition changes one number in twenty; one wrong entry of the table of
 * AES changes all.
 */
#include "shared.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUTES = 8, SHARDS = 2, STEPS = 6, COUNT = 75, SEARCHED = 1 << 17 };
static const uint64_t SEED = 20220101; /* of a testing key, which hides nothing */

typedef struct route {
    const char *name, *family, *workload;
    const char *participation; /* of those that are optimized; NULL: single */
    int bands, buffers, shared;
} route;

static const route routes[ROUTES] = {
    {.name = "independent noise", .family = "identity", .workload = "prefix"},
    {.name = "filtered seeds", .family = "bisr", .workload = "prefix", .bands = 3},
    {.name = "banded", .family = "bsr", .workload = "momentum:0.9", .bands = 3},
    {.name = "blt", .family = "blt", .workload = "prefix", .buffers = 2},
    {.name = "tvblt", .family = "tvblt", .workload = "prefix", .buffers = 2},
    {.name = "tvblt of order 2", .family = "tvblt", .workload = "momentum:0.9", .buffers = 2},
    {.name = "tvblt, seeds made again",
     .family = "tvblt",
     .workload = "prefix",
     .participation = "cyclic:3,2",
     .buffers = 2},
    {.name = "tvblt, shared seeds",
     .family = "tvblt",
     .workload = "prefix",
     .participation = "cyclic:3,2",
     .buffers = 2,
     .shared = 1}};

typedef struct shard {
    dpmf_noise *recipes;
    device_rows rows;
    float sum[STEPS * COUNT]; /* by libdpmf */
} shard;

struct device_answers {
    dpmf_device *device;
    device_memory out;
    shard shards[ROUTES * SHARDS];
};

/* Few bits, so that the number is the same in every type. */
static float pattern(int64_t i) {
    return (float)(i * 37 % 64 - 32) / 8;
}

static dpmf_status make_strategy(const route *r, const dpmf_workload *workload, const dpmf_participation *participation,
                                 dpmf_strategy **out) {
    static const double scale[] = {0.3, 0.2}, decay[] = {0.9, 0.5};
    dpmf_strategy_options options = dpmf_strategy_options_defaults();
    dpmf_optimize_options optimize = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    if (strcmp(r->family, "blt") == 0) return dpmf_strategy_create_blt(STEPS, r->buffers, scale, decay, NULL, out);
    if (strcmp(r->family, "tvblt") == 0) {
        optimize.buffers = r->buffers;
        optimize.shared_seeds = r->shared;
        return dpmf_optimize(r->family, workload, participation, &optimize, out, &found);
    }
    options.bands = r->bands;
    return dpmf_strategy_create(r->family, workload, &options, out);
}

static dpmf_status make_mechanism(const route *r, dpmf_mechanism **out) {
    dpmf_workload *workload = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_status status = dpmf_workload_parse(r->workload, STEPS, &workload);
    if (status == DPMF_OK && r->participation != NULL)
        status = dpmf_participation_parse(r->participation, STEPS, &participation);
    if (status == DPMF_OK) status = make_strategy(r, workload, participation, &strategy);
    if (status == DPMF_OK) status = dpmf_mechanism_create(workload, participation, strategy, NULL, out);
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return device_took(status);
}

/* ---- libdpmf's rows ---- */

/* The unit of 32 coordinates whose first row has a number of a small radius word. */
static dpmf_status find_unit(const dpmf_mechanism *identity, const uint8_t key[DPMF_KEY_SIZE], int64_t *unit) {
    const float far = (float)(24 * M_LN2); /* radius squared, u = 2^-12 */
    dpmf_noise_options options = dpmf_noise_options_defaults();
    dpmf_status status = DPMF_OK;
    dpmf_noise *noise = NULL;
    float *row = NULL;
    *unit = 1;
    options.uncalibrated = 1;
    DEVICE_TRY(device_alloc(SEARCHED, sizeof *row, "a row", (void **)&row));
    status = dpmf_noise_create(identity, SEARCHED, 1.0, key, &options, &noise);
    if (status == DPMF_OK) status = dpmf_noise_next(noise, row);
    const float scale = status == DPMF_OK ? (float)dpmf_noise_get(noise).release.scale : 1;
    for (int64_t i = 32; status == DPMF_OK && i < SEARCHED; i++) {
        if (i % 32 >= 16) continue;
        const float x = row[i] / scale, y = row[i + 16] / scale;
        if (x * x + y * y < far * 1.001f) continue;
        *unit = i / 32;
        break;
    }
    dpmf_noise_free(noise);
    free(row);
    return device_took(status);
}

static dpmf_status make_sums(const dpmf_mechanism *mechanism, const uint8_t key[DPMF_KEY_SIZE], int64_t offset,
                             float *sum) {
    dpmf_noise_options options = dpmf_noise_options_defaults();
    dpmf_noise *noise = NULL;
    options.offset = offset;
    options.count = COUNT;
    options.uncalibrated = 1;
    options.run.threads = 1;
    dpmf_status status = dpmf_noise_create(mechanism, 2 * SEARCHED, 1.0, key, &options, &noise);
    for (int t = 0; t < STEPS && status == DPMF_OK; t++) {
        const dpmf_segment whole = {sum + t * COUNT, COUNT};
        for (int64_t i = 0; i < COUNT; i++)
            sum[t * COUNT + i] = pattern(i);
        status = dpmf_noise_add(noise, 1.0, 1, &whole);
    }
    dpmf_noise_free(noise);
    return device_took(status);
}

static dpmf_status make_shard(dpmf_device *device, const dpmf_mechanism *mechanism, const uint8_t key[DPMF_KEY_SIZE],
                              int64_t offset, shard *out) {
    dpmf_noise_options options = dpmf_noise_options_defaults();
    const dpmf_noise_maker maker = {&out->rows, device_rows_read, device_rows_write};
    options.offset = offset;
    options.count = COUNT;
    options.uncalibrated = 1;
    options.maker = &maker;
    DEVICE_TRY(make_sums(mechanism, key, offset, out->sum));
    DEVICE_TRY(device_took(dpmf_noise_create(mechanism, 2 * SEARCHED, 1.0, key, &options, &out->recipes)));
    return device_rows_create(device, out->recipes, STEPS, offset, COUNT, 0, &out->rows);
}

void device_answers_free(device_answers *answers) {
    if (answers == NULL) return;
    for (int i = 0; i < ROUTES * SHARDS; i++) {
        device_rows_free(&answers->shards[i].rows);
        dpmf_noise_free(answers->shards[i].recipes);
    }
    answers->device->backend->release(answers->device->context, answers->out, COUNT * sizeof(float));
    free(answers);
}

dpmf_status device_answers_create(dpmf_device *device, device_answers **out) {
    dpmf_status status = DPMF_OK;
    device_answers *answers = NULL;
    dpmf_mechanism *mechanism = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    int64_t unit = 1;
    DEVICE_TRY(device_took(dpmf_key_testing(SEED, key)));
    DEVICE_TRY(device_alloc(1, sizeof *answers, "the known answers", (void **)&answers));
    answers->device = device;
    DEVICE_TRY_DONE(device->backend->allocate(device->context, COUNT * sizeof(float), &answers->out));
    for (int r = 0; r < ROUTES; r++) {
        DEVICE_TRY_DONE(make_mechanism(&routes[r], &mechanism));
        if (r == 0) DEVICE_TRY_DONE(find_unit(mechanism, key, &unit));
        for (int k = 0; k < SHARDS; k++) {
            const int64_t offset = 32 * unit - (k == 0 ? 7 : 12);
            DEVICE_TRY_DONE(make_shard(device, mechanism, key, offset, &answers->shards[r * SHARDS + k]));
        }
        dpmf_mechanism_free(mechanism);
        mechanism = NULL;
    }
    *out = answers;
    answers = NULL;
done:
    dpmf_mechanism_free(mechanism);
    device_answers_free(answers);
    return status;
}

/* Rounds to the nearest, ties to even, as the kernel does, by arithmetic on doubles, which can hold the exact value. */
static uint32_t rounded(float x, int type) {
    uint32_t bits;
    int exponent;
    memcpy(&bits, &x, sizeof bits);
    if (type == DPMF_DEVICE_FLOAT32) return bits;
    if (type == DPMF_DEVICE_BFLOAT16) return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const double size = fabs((double)x);
    (void)frexp(size, &exponent);                    /* size is in [2^(exponent-1), 2^exponent) */
    if (size == 0 || exponent < -13) exponent = -13; /* subnormal, all in steps of 2^-24 */
    const uint32_t steps =
        (uint32_t)nearbyint(ldexp(size, 11 - exponent)); /* of 2^(exponent-11): 1024 to 2048 of them */
    return (bits >> 16 & 0x8000) | (uint32_t)(((exponent + 13) << 10) + (int)steps);
}

static dpmf_status check_row(device_answers *a, const route *r, shard *s, int t, int type) {
    const device_backend *b = a->device->backend;
    unsigned char bytes[COUNT * sizeof(float)];
    const size_t size = type == DPMF_DEVICE_FLOAT32 ? 4 : 2;
    const device_target target = {
        .type = type, .add = 1, .scale = dpmf_noise_get(s->recipes).release.scale, .memory = a->out};
    for (int64_t i = 0; i < COUNT; i++) {
        const uint32_t bits = rounded(pattern(i), type);
        memcpy(bytes + (size_t)i * size, &bits, size);
    }
    DEVICE_TRY(b->write(a->device->context, a->out, 0, bytes, COUNT * size, NULL));
    DEVICE_TRY(device_rows_make(&s->rows, t, &target, NULL));
    DEVICE_TRY(b->read(a->device->context, a->out, 0, bytes, COUNT * size));
    static const char *const words[] = {"", "float32", "bfloat16", "float16"};
    for (int64_t i = 0; i < COUNT; i++) {
        const uint32_t wanted = rounded(s->sum[t * COUNT + i], type);
        uint32_t value = 0;
        if (type == DPMF_DEVICE_FLOAT32)
            memcpy(&value, bytes + 4 * i, 4);
        else
            memcpy(&value, bytes + 2 * i, 2); /* little-endian, as all of libdpmf */
        if (value == wanted) continue;
        return device_fail(DPMF_ERROR_UNSUPPORTED,
                           "%s does not give the noise's bits and is refused: %s, row %d, coordinate %" PRId64
                           " in %s is 0x%0*" PRIx32 ", and 0x%0*" PRIx32 " by libdpmf",
                           dpmf_device_name(a->device), r->name, t, s->rows.first + i, words[type],
                           type == DPMF_DEVICE_FLOAT32 ? 8 : 4, value, type == DPMF_DEVICE_FLOAT32 ? 8 : 4, wanted);
    }
    return DPMF_OK;
}

dpmf_status device_answers_check(dpmf_device *device) {
    device_answers *a = device->answers;
    for (int i = 0; i < ROUTES * SHARDS; i++) {
        shard *s = &a->shards[i];
        s->rows.made = s->rows.kept = 0;
        for (int t = 0; t < STEPS; t++)
            DEVICE_TRY(check_row(a, &routes[i / SHARDS], s, t, 1 + (t + i % SHARDS) % 3));
    }
    return DPMF_OK;
}
