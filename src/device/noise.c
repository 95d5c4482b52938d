/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public stream: libdpmf's own stream holds the key and the state file and checks the rules (dpmf_noise_maker of
 * dpmf.h); the device makes the rows.
 *
 * A row is made in libdpmf's order: first all checks, then the reservation, then the row. The call does not wait for
 * the device, so the row counts as arrived when the next one is requested, or when the device is seen to have finished.
 * A program that ends before that leaves the row in doubt, as it would with libdpmf.
 */
#include "shared.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dpmf_device_noise {
    dpmf_noise *rules;
    device_rows rows;
    int given; /* the row of `rules` was given to the caller, but not yet counted as arrived */
    int ended; /* a row that was reserved could not be made */
    pid_t pid;
};

static dpmf_status check_options(const dpmf_device *device, const dpmf_mechanism *mechanism,
                                 const dpmf_noise_options *o) {
    if (device == NULL || mechanism == NULL)
        return device_fail(DPMF_ERROR_ARGUMENT, "the device or the mechanism is NULL");
    if (device->pid != getpid())
        return device_fail(DPMF_ERROR_UNSUPPORTED, "this device was opened before fork(), by process %lld",
                           (long long)device->pid);
    if (o->precision != DPMF_FLOAT32)
        return device_fail(DPMF_ERROR_UNSUPPORTED, "precision %d, accepted on a device: 0 (float32)",
                           (int)o->precision);
    if (o->maker != NULL) return device_fail(DPMF_ERROR_ARGUMENT, "maker: the device makes the rows");
    return DPMF_OK;
}

dpmf_status dpmf_device_noise_create(dpmf_device *device, const dpmf_mechanism *mechanism, int64_t dim, double clip,
                                     const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options,
                                     dpmf_device_noise **out) {
    dpmf_noise_options o = options == NULL ? dpmf_noise_options_defaults() : *options;
    dpmf_device_noise *noise = NULL;
    dpmf_status status = DPMF_OK;
    DEVICE_TRY(check_options(device, mechanism, &o));
    DEVICE_TRY(device_answers_check(device));
    DEVICE_TRY(device_alloc(1, sizeof *noise, "a noise stream", (void **)&noise));
    noise->pid = getpid();
    const dpmf_noise_maker maker = {&noise->rows, device_rows_read, device_rows_write};
    const int ahead = o.prefetch != 0;
    o.maker = &maker;
    o.prefetch = 0;
    DEVICE_TRY_DONE(device_took(dpmf_noise_create(mechanism, dim, clip, key, &o, &noise->rules)));
    DEVICE_TRY_DONE(device_rows_create(device, noise->rules,
                                       dpmf_strategy_get(dpmf_mechanism_get(mechanism).strategy).steps, o.offset,
                                       dpmf_noise_get(noise->rules).count, ahead, &noise->rows));
    *out = noise;
    noise = NULL;
done:
    dpmf_device_noise_free(noise);
    return status;
}

/* The last row is complete, and so it has arrived. */
static dpmf_status settle(dpmf_device_noise *noise) {
    if (!noise->given) return DPMF_OK;
    DEVICE_TRY(device_took(dpmf_noise_arrived(noise->rules)));
    noise->given = 0;
    return DPMF_OK;
}

void dpmf_device_noise_free(dpmf_device_noise *noise) {
    if (noise == NULL) return;
    if (noise->pid == getpid() && noise->rows.device != NULL) {
        const dpmf_device *device = noise->rows.device;
        if (device->backend->wait(device->context) == DPMF_OK && !noise->ended && settle(noise) != DPMF_OK)
            noise->ended = 1; /* the state file then leaves the row in doubt, as it should */
        device_rows_free(&noise->rows);
    }
    dpmf_noise_free(noise->rules);
    explicit_bzero(noise, sizeof *noise);
    free(noise);
}

static dpmf_status check_usable(const dpmf_device_noise *noise) {
    if (noise == NULL) return device_fail(DPMF_ERROR_ARGUMENT, "the stream is NULL");
    if (noise->pid != getpid())
        return device_fail(DPMF_ERROR_UNSUPPORTED, "this stream belongs to process %lld, which forked",
                           (long long)noise->pid);
    if (noise->ended)
        return device_fail(DPMF_ERROR_IO, "this stream has ended: row %" PRId64 " was reserved and could not be made",
                           dpmf_noise_get(noise->rules).step);
    return DPMF_OK;
}

static dpmf_status check_target(const dpmf_device_noise *noise, const device_target *target) {
    const int64_t count = noise->rows.count;
    int64_t sum = 0;
    if (target->type < DPMF_DEVICE_FLOAT32 || target->type > DPMF_DEVICE_FLOAT16)
        return device_fail(DPMF_ERROR_ARGUMENT, "type %d, accepted 1 (float32), 2 (bfloat16) and 3 (float16)",
                           (int)target->type);
    if (target->segments < 0 || (target->segments > 0 && target->segment == NULL))
        return device_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " segments, accepted 0 or more, and their list",
                           target->segments);
    for (int64_t i = 0; i < target->segments; i++) {
        const dpmf_segment *s = &target->segment[i];
        if (s->count < 0 || s->count > count - sum || (s->count > 0 && s->memory == NULL))
            return device_fail(DPMF_ERROR_ARGUMENT,
                               "segment %" PRId64 " is NULL or has count %" PRId64 ", accepted 0 to %" PRId64
                               ": what is left of a row of "
                               "%" PRId64,
                               i, s->count, count - sum, count);
        sum += s->count;
    }
    if (sum == count) return DPMF_OK;
    return device_fail(DPMF_ERROR_ARGUMENT, "the segments have %" PRId64 " numbers in total, accepted: %" PRId64, sum,
                       count);
}

static dpmf_status hand_out(dpmf_device_noise *noise, double factor, device_target *target, void *stream) {
    const dpmf_device *device = NULL;
    DEVICE_TRY(check_usable(noise));
    DEVICE_TRY(check_target(noise, target));
    device = noise->rows.device;
    DEVICE_TRY(device->backend->order(device->context, noise->rows.program, stream));
    DEVICE_TRY(settle(noise));
    const int64_t step = dpmf_noise_get(noise->rules).step;
    if (step < noise->rows.steps) DEVICE_TRY(device_rows_seek(&noise->rows, step, stream));
    DEVICE_TRY(device_took(dpmf_noise_reserve(noise->rules, factor, &target->scale)));
    dpmf_status status = device_rows_make(&noise->rows, step, target, stream);
    noise->ended = status != DPMF_OK;
    noise->given = status == DPMF_OK;
    return status;
}

dpmf_status dpmf_device_noise_next(dpmf_device_noise *noise, dpmf_device_type type, void *row, void *stream) {
    DEVICE_TRY(check_usable(noise));
    const dpmf_segment whole = {row, noise->rows.count};
    device_target target = {.type = (int32_t)type, .segments = 1, .segment = &whole};
    return hand_out(noise, 1.0, &target, stream);
}

dpmf_status dpmf_device_noise_add(dpmf_device_noise *noise, double factor, dpmf_device_type type, int64_t segments,
                                  const dpmf_segment *segment, void *stream) {
    device_target target = {.type = (int32_t)type, .add = 1, .segments = segments, .segment = segment};
    return hand_out(noise, factor, &target, stream);
}

dpmf_status dpmf_device_noise_ahead(dpmf_device_noise *noise, void *stream) {
    DEVICE_TRY(check_usable(noise));
    if (noise->rows.ahead == 0)
        return device_fail(DPMF_ERROR_UNSUPPORTED, "this stream makes no rows ahead: its options have no prefetch");
    const int64_t step = dpmf_device_noise_step(noise);
    if (step >= noise->rows.steps) return DPMF_OK; /* nothing is left to make */
    DEVICE_TRY(device_rows_seek(&noise->rows, step, stream));
    return device_rows_ahead(&noise->rows, step, stream);
}

dpmf_status dpmf_device_noise_wait(dpmf_device_noise *noise) {
    DEVICE_TRY(check_usable(noise));
    DEVICE_TRY(noise->rows.device->backend->wait(noise->rows.device->context));
    return settle(noise);
}

/* ---- seek, and files ---- */

/* Of saving and loading: if the device failed in between, the message is the device's. */
static dpmf_status took_files(dpmf_device_noise *noise, dpmf_status status) {
    const int failed = noise->rows.failed;
    noise->rows.failed = 0;
    return failed ? status : device_took(status);
}

dpmf_status dpmf_device_noise_bind_sum(dpmf_device_noise *noise, const uint8_t digest[DPMF_DIGEST_SIZE]) {
    DEVICE_TRY(check_usable(noise));
    DEVICE_TRY(settle(noise));
    return device_took(dpmf_noise_bind_sum(noise->rules, digest));
}

/* The buffers are computed on the next use. */
dpmf_status dpmf_device_noise_seek(dpmf_device_noise *noise, int64_t step) {
    DEVICE_TRY(dpmf_device_noise_wait(noise));
    return device_took(dpmf_noise_seek(noise->rules, step));
}

dpmf_status dpmf_device_noise_save(dpmf_device_noise *noise, const char *path) {
    DEVICE_TRY(dpmf_device_noise_wait(noise));
    noise->rows.ahead_of = -1; /* a checkpoint has no field for it */
    DEVICE_TRY(device_rows_seek(&noise->rows, dpmf_noise_get(noise->rules).step, NULL));
    return took_files(noise, dpmf_noise_save(noise->rules, path));
}

dpmf_status dpmf_device_noise_load(dpmf_device_noise *noise, const char *path) {
    DEVICE_TRY(dpmf_device_noise_wait(noise));
    return took_files(noise, dpmf_noise_load(noise->rules, path));
}

dpmf_status dpmf_device_noise_load_parts(dpmf_device_noise *noise, int64_t parts, const char *const *path) {
    DEVICE_TRY(dpmf_device_noise_wait(noise));
    return took_files(noise, dpmf_noise_load_parts(noise->rules, parts, path));
}

int64_t dpmf_device_noise_step(const dpmf_device_noise *noise) {
    return dpmf_noise_get(noise->rules).step + noise->given;
}

int64_t dpmf_device_noise_reserved(const dpmf_device_noise *noise) {
    return dpmf_noise_get(noise->rules).reserved;
}

int dpmf_device_noise_in_doubt(const dpmf_device_noise *noise) {
    return dpmf_noise_get(noise->rules).in_doubt;
}

int64_t dpmf_device_noise_count(const dpmf_device_noise *noise) {
    return noise->rows.count;
}

void dpmf_device_noise_salt(const dpmf_device_noise *noise, uint8_t salt[DPMF_SALT_SIZE]) {
    const dpmf_noise_info info = dpmf_noise_get(noise->rules);
    memcpy(salt, info.salt, sizeof info.salt);
}

double dpmf_device_noise_scale(const dpmf_device_noise *noise) {
    return dpmf_noise_get(noise->rules).release.scale;
}
