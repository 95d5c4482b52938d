/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noise: the public stream. noise/stream.h makes the rows of the strategy; this file has the scale, the key, the state file
 * and the rules for when a row may be used:
 *
 *     row t of the run = clip x sigma x sensitivity x row t of W Z
 *     the key of Z     = HKDF(key, everything that a state file is bound to but the shard, and the salt of the state file)
 *
 * So no two streams that differ in anything, their state file included, share noise, up to a factor or otherwise. The state
 * file is therefore opened first.
 *
 * A row is used in this order: all checks have passed, the row is reserved in the state file, the row is written to the
 * caller's memory.
 */
#include "noise/noise.h"
#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"
#include "mechanism/mechanism.h"
#include "strategy/strategy.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* 2^53: every coordinate is exact in a double, as steps are. */
#define MOST_DIM ((int64_t)1 << 53)

dpmf_noise_options dpmf_noise_options_defaults(void) {
    return (dpmf_noise_options){.run = dpmf_run_defaults()};
}

static dpmf_status check_shard(int64_t dim, dpmf_noise_options *o) {
    if (dim < 1 || dim > MOST_DIM) return base_fail(DPMF_ERROR_ARGUMENT, "dim = %" PRId64 ", accepted 1 to 2^53", dim);
    if (o->offset < 0 || o->offset >= dim)
        return base_fail(DPMF_ERROR_ARGUMENT, "offset = %" PRId64 ", accepted 0 to %" PRId64 " (below dim)", o->offset,
                         dim - 1);
    if (o->count < 0 || o->count > dim - o->offset)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "count = %" PRId64 ", accepted 1 to %" PRId64 " (dim less the offset), or 0 for that",
                         o->count, dim - o->offset);
    if (o->count == 0) o->count = dim - o->offset;
    if (o->exact) o->precision = DPMF_FLOAT64;
    return DPMF_OK;
}

/* Zeros are the salt of streams without a state file: a stream with one would share their noise. */
static dpmf_status check_salt(dpmf_noise_options *o, int kept) {
    static const uint8_t none[DPMF_SALT_SIZE];
    if (o->state_now != 0 && !kept)
        return base_fail(DPMF_ERROR_ARGUMENT, "state_now: it needs a state file, and none is given");
    if (o->salt == NULL || memcmp(o->salt, none, sizeof none) != 0) return DPMF_OK;
    if (kept)
        return base_fail(DPMF_ERROR_ARGUMENT, "salt: it is all zeros, which is that of a stream without a state file");
    o->salt = NULL;
    return DPMF_OK;
}

static dpmf_status check_options(const dpmf_mechanism *mechanism, int64_t dim, dpmf_noise_options *o) {
    if (mechanism == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "noise: the mechanism is NULL");
    if ((int)o->precision < DPMF_FLOAT32 || o->precision > DPMF_FLOAT64)
        return base_fail(DPMF_ERROR_ARGUMENT, "precision %d, accepted 0 (float32) and 1 (float64)", (int)o->precision);
    TRY(check_shard(dim, o));
    TRY(mechanism_check_columns(mechanism, dim));
    if (o->lookahead < 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "lookahead = %" PRId64 ", accepted 0 (chosen) or more", o->lookahead);
    if (o->state != NULL && *o->state == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "state: the path is empty");
    const int kept = o->state != NULL || (o->key_file != NULL && !o->rows_may_repeat);
    if (o->state != NULL && o->rows_may_repeat)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "rows_may_repeat: it is for streams without a state file, but one is given");
    if (o->replay != 0 && !kept)
        return base_fail(DPMF_ERROR_ARGUMENT, "replay: it needs a state file, and none is given");
    TRY(check_salt(o, kept));
    if (o->whole_state != 0 && !kept)
        return base_fail(DPMF_ERROR_ARGUMENT, "whole_state: it needs a state file, and none is given");
    if (mechanism->digest[0] == '\0' && (o->label == NULL || *o->label == '\0'))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "label: a mechanism with a user's operator has no digest and needs its own label, so "
                         "that no other gets the same noise from the key");
    return DPMF_OK;
}

/* 2^-100 to 2^100 leaves room for floats: rows of W Z are within 2^+-20 of 1 where they matter, floats reach 2^-126 whole. */
static dpmf_status check_scale(dpmf_precision precision, double scale, const char *what) {
    const double most = precision == DPMF_FLOAT32 ? 0x1p100 : 0x1p900;
    if (fabs(scale) >= 1 / most && fabs(scale) <= most) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "%s = %g, accepted for %s: %g to %g", what, scale,
                     precision == DPMF_FLOAT32 ? "float32" : "float64", 1 / most, most);
}

/* The limit of the design is kept where it can be; one that the caller names is kept or refused. */
static noise_stream_options stream_options(const dpmf_mechanism *m, const dpmf_noise_options *o) {
    const int designed = o->memory == 0 && o->scratch == NULL && m->designed.dim != 0;
    return (noise_stream_options){.memory = designed ? m->designed.memory : o->memory,
                                  .strict = o->memory != 0,
                                  .precision = o->precision,
                                  .first = o->offset,
                                  .count = o->count,
                                  .lookahead = o->lookahead,
                                  .exact = o->exact != 0,
                                  .scratch = o->scratch,
                                  .maker = o->maker};
}

/* No text hashes to the label of a lazy stream: it has a zero inside. `width` 0: the stream is not lazy. */
static dpmf_status make_label(const char *label, int64_t width, char out[65]) {
    static const char LAZY[] = "lazy noise";
    const size_t length = label == NULL ? 0 : strlen(label);
    const base_part parts[] = {{LAZY, sizeof LAZY}, {&width, sizeof width}, {label, length}};
    if (width > 0) return base_sha256(length > 0 ? 3 : 2, parts, out);
    return length > 0 ? base_sha256(1, &parts[2], out) : DPMF_OK;
}

static dpmf_status make_binding(const dpmf_mechanism *m, int64_t dim, int64_t width, double clip, const uint8_t key[32],
                                const dpmf_noise_options *o, noise_binding *binding) {
    memset(binding, 0, sizeof *binding);
    memcpy(binding->digest, m->digest, sizeof binding->digest);
    TRY(make_label(o->label, width, binding->label));
    binding->steps = m->problem.steps;
    binding->dim = dim;
    binding->offset = o->offset;
    binding->count = o->count;
    binding->clip = clip;
    binding->precision = o->precision;
    binding->grid = o->grid;
    binding->sigma = m->sigma > 0 ? m->sigma : 1;
    binding->salted = o->salt != NULL;
    if (o->salt != NULL) memcpy(binding->salt, o->salt, sizeof binding->salt);
    return noise_binding_keys(key, binding);
}

static dpmf_status check_calibrated(const dpmf_mechanism *mechanism, int uncalibrated) {
    if (mechanism->sigma > 0 || uncalibrated) return DPMF_OK;
    return base_fail(
        DPMF_ERROR_ARGUMENT,
        "the mechanism has no sigma, and its noise would promise nothing: calibrate it to (epsilon, delta) "
        "first; the option uncalibrated takes sigma = 1");
}

static dpmf_status open_seed(const uint8_t key[32], dpmf_noise *noise) {
    uint8_t subkey[32];
    TRY(noise_binding_seed_key(key, &noise->binding, subkey));
    dpmf_status status = crypto_seed_open(subkey, &noise->seed);
    if (status == DPMF_OK && noise->elsewhere) memcpy(noise->subkey, subkey, sizeof subkey);
    crypto_wipe(subkey, sizeof subkey);
    return status;
}

static dpmf_status create_checked(dpmf_noise *noise, const dpmf_mechanism *m, int64_t width, const uint8_t key[32],
                                  const dpmf_noise_options *o, noise_keep *keep, void *context) {
    noise_stream_options wanted = stream_options(m, o);
    if (o->exact) wanted.exact = noise->release.scale / o->grid;
    noise->pid = getpid();
    noise->run = o->run;
    noise->replay = o->replay != 0;
    noise->strategy = strategy_retain(m->strategy);
    noise->elsewhere = o->maker != NULL;
    TRY(keep != NULL ? keep(context, &noise->binding) : noise_open_state(noise, o));
    TRY(open_seed(key, noise));
    TRY(base_pool_create(noise->elsewhere ? 1 : o->run.threads, &noise->pool));
    if (width > 0) return DPMF_OK; /* its rows are drawn when they are needed (noise/lazy.c) */
    TRY(noise_stream_create(noise->strategy, noise->seed, &wanted, noise->pool, &noise->stream));
    if (noise->elsewhere)
        TRY(base_alloc(noise_stream_seeds(noise->stream), sizeof *noise->recipe_seed, "the seeds of a row",
                       (void **)&noise->recipe_seed));
    else if (o->prefetch)
        TRY(noise_prefetch_create(noise->stream, wanted.precision, o->count, &noise->prefetch));
    return DPMF_OK;
}

static dpmf_status create(const dpmf_mechanism *mechanism, int64_t dim, int64_t width, double clip,
                          const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options, noise_keep *keep,
                          void *context, dpmf_noise **out) {
    dpmf_noise_options o = options == NULL ? dpmf_noise_options_defaults() : *options;
    dpmf_status status = DPMF_OK;
    dpmf_noise *noise = NULL;
    if (key == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "noise: the key is NULL");
    TRY(check_options(mechanism, dim, &o));
    if (!(clip > 0 && isfinite(clip)))
        return base_fail(DPMF_ERROR_ARGUMENT, "clip = %g, accepted: positive and finite", clip);
    const dpmf_sensitivity *sensitivity = &mechanism->problem.evaluation.sensitivity;
    if (sensitivity->kind != DPMF_EXACT && sensitivity->kind != DPMF_UPPER_BOUND)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "the mechanism's sensitivity is only known as %s %s: noise of that size gives no guarantee",
                         sensitivity->kind == DPMF_ESTIMATE ? "an" : "a", dpmf_certainty_name(sensitivity->kind));
    TRY(check_calibrated(mechanism, o.uncalibrated));
    const double sigma = mechanism->sigma > 0 ? mechanism->sigma : 1;
    dpmf_exact release = {.sensitivity = sensitivity->value, .scale = clip * sigma * sensitivity->value};
    TRY(check_scale(o.precision, release.scale, "clip x sigma x sensitivity"));
    if (o.exact) TRY(dpmf_exact_plan(mechanism, dim, clip, o.grid, &o.run, &release));
    o.grid = release.grid;
    TRY(base_alloc(1, sizeof *noise, "a noise stream", (void **)&noise));
    noise->release = release;
    noise->calibrated = mechanism->sigma > 0;
    TRY_DONE(make_binding(mechanism, dim, width, clip, key, &o, &noise->binding));
    TRY_DONE(create_checked(noise, mechanism, width, key, &o, keep, context));
    *out = noise;
    noise = NULL;
done:
    dpmf_noise_free(noise);
    return status;
}

dpmf_status dpmf_noise_create(const dpmf_mechanism *mechanism, int64_t dim, double clip,
                              const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options, dpmf_noise **out) {
    return create(mechanism, dim, 0, clip, key, options, NULL, NULL, out);
}

dpmf_status noise_create_kept(const dpmf_mechanism *mechanism, int64_t dim, double clip,
                              const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options, noise_keep *keep,
                              void *context, dpmf_noise **out) {
    return create(mechanism, dim, 0, clip, key, options, keep, context, out);
}

dpmf_status noise_create_lazy(const dpmf_mechanism *mechanism, int64_t rows, int64_t width, double clip,
                              const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options, dpmf_noise **out) {
    return create(mechanism, rows * width, width, clip, key, options, NULL, NULL, out);
}

/* After fork() the threads are the parent's: the child wipes its copy of what is secret and leaves the pool behind. */
void dpmf_noise_free(dpmf_noise *noise) {
    if (noise == NULL) return;
    const int forked = noise->pid != 0 && noise->pid != getpid();
    const int arrived = noise->state != NULL && noise->step == noise_state_reserved(noise->state) && !noise->in_doubt;
    noise_state_close(noise->state, arrived && !forked && !noise->ended);
    noise_prefetch_free(noise->prefetch, forked);
    noise_stream_free(noise->stream);
    crypto_seed_close(noise->seed);
    if (!forked) base_pool_free(noise->pool);
    base_free(noise->recipe_seed);
    dpmf_strategy_free(noise->strategy);
    crypto_wipe(noise, sizeof *noise);
    base_free(noise);
}

dpmf_status dpmf_noise_memory(const dpmf_mechanism *mechanism, int64_t dim, const dpmf_noise_options *options,
                              uint64_t *bytes, uint64_t *buffers) {
    dpmf_noise_options o = options == NULL ? dpmf_noise_options_defaults() : *options;
    base_pool *pool = NULL;
    uint64_t all = 0, kept = 0;
    TRY(check_options(mechanism, dim, &o));
    const noise_stream_options wanted = stream_options(mechanism, &o);
    TRY(base_pool_create(o.run.threads, &pool)); /* for the number of threads */
    const int threads = base_pool_threads(pool);
    base_pool_free(pool);
    TRY(noise_stream_memory(mechanism->strategy, &wanted, threads, &all, &kept));
    if (o.prefetch) all += noise_prefetch_memory(wanted.precision, o.count);
    if (bytes != NULL) *bytes = all + sizeof(dpmf_noise);
    if (buffers != NULL) *buffers = kept;
    return DPMF_OK;
}

static dpmf_status check_row(const dpmf_noise *noise) {
    TRY(noise_check_usable(noise));
    if (noise->in_doubt)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "row %" PRId64
                         " was reserved when a program ended, and it is not known if it arrived: seek to row %" PRId64
                         " if it did, or to the row itself, with the option replay, if not",
                         noise->step - 1, noise->step);
    if (noise->step >= noise->binding.steps)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "row %" PRId64 ", accepted 0 to %" PRId64 ": the mechanism has %" PRId64 " steps", noise->step,
                         noise->binding.steps - 1, noise->binding.steps);
    return DPMF_OK;
}

void noise_drop_prefetched(dpmf_noise *noise) {
    if (noise->prefetch != NULL) noise_prefetch_drop(noise->prefetch);
}

dpmf_status noise_take_stream(dpmf_noise *noise) {
    noise_drop_prefetched(noise);
    if (noise->elsewhere) return DPMF_OK; /* its maker has the buffers */
    if (noise_stream_step(noise->stream) == noise->step) return DPMF_OK;
    return noise_stream_seek(noise->stream, noise->step, &noise->run);
}

/* Brings the stream to noise->step and ends prefetching, unless the thread makes exactly that row. */
static dpmf_status take_position(dpmf_noise *noise) {
    if (noise->prefetch != NULL && noise_prefetch_pending(noise->prefetch) && noise->prefetched == noise->step)
        return DPMF_OK;
    return noise_take_stream(noise);
}

static void prefetch_next(dpmf_noise *noise) {
    if (noise->prefetch == NULL || noise->step >= noise->binding.steps) return;
    noise->prefetched = noise->step;
    noise_prefetch_ask(noise->prefetch);
}

static dpmf_status hand_out(dpmf_noise *noise, double scale, noise_how how, int64_t segments,
                            const dpmf_segment *segment) {
    if (noise->elsewhere)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the rows of this stream are made elsewhere (options: maker)");
    TRY(check_row(noise));
    TRY(noise_check_segments(noise->binding.count, segments, segment));
    TRY(noise_check_bound(noise));
    TRY(take_position(noise));
    TRY(noise_reserve(noise));
    if (noise->prefetch != NULL && noise_prefetch_pending(noise->prefetch))
        TRY(noise_prefetch_take(noise->prefetch, scale, how, segments, segment));
    else
        TRY(noise_stream_emit(noise->stream, scale, how, segments, segment));
    noise->step++;
    noise->bound = 0;
    prefetch_next(noise);
    return DPMF_OK;
}

dpmf_status dpmf_noise_next(dpmf_noise *noise, void *row) {
    TRY(noise_check_usable(noise));
    const dpmf_segment whole = {row, noise->binding.count};
    return hand_out(noise, noise->binding.grid > 0 ? noise->binding.grid : noise->release.scale, NOISE_STORE, 1,
                    &whole);
}

static dpmf_status check_factor(const dpmf_noise *noise, double factor) {
    if (!(factor != 0 && isfinite(factor)))
        return base_fail(DPMF_ERROR_ARGUMENT, "factor = %g, accepted: finite and not 0", factor);
    return check_scale(noise->binding.precision, factor * noise->release.scale, "factor x clip x sigma x sensitivity");
}

dpmf_status dpmf_noise_add(dpmf_noise *noise, double factor, int64_t segments, const dpmf_segment *segment) {
    TRY(noise_check_usable(noise));
    if (noise->binding.grid > 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "a sum in floating point is no exact release: add integers, in "
                                                 "steps of the grid, with dpmf_noise_add_whole");
    TRY(check_factor(noise, factor));
    return hand_out(noise, factor * noise->release.scale, NOISE_ADD, segments, segment);
}

dpmf_status dpmf_noise_add_whole(dpmf_noise *noise, int64_t segments, const dpmf_segment *segment) {
    TRY(noise_check_usable(noise));
    if (!(noise->binding.grid > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_noise_add_whole: the stream is not exact (option exact)");
    return hand_out(noise, noise->binding.grid, NOISE_ADD_WHOLE, segments, segment);
}

dpmf_status dpmf_noise_seek(dpmf_noise *noise, int64_t step) {
    TRY(noise_check_seek(noise, step));
    const int64_t before = noise->step;
    noise->step = step;
    dpmf_status status = take_position(noise);
    if (status != DPMF_OK) {
        noise->step = before;
        return status;
    }
    noise->in_doubt = noise->bound = 0;
    prefetch_next(noise);
    return DPMF_OK;
}

dpmf_noise_info dpmf_noise_get(const dpmf_noise *noise) {
    dpmf_noise_info info = {.step = noise->step,
                            .count = noise->binding.count,
                            .reserved = noise->state != NULL ? noise_state_reserved(noise->state) : 0,
                            .in_doubt = noise->in_doubt,
                            .calibrated = noise->calibrated,
                            .grid = noise->binding.grid,
                            .release = noise->release};
    memcpy(info.salt, noise->binding.salt, sizeof info.salt);
    return info;
}

/* ---- rows that are made elsewhere ---- */

/* A recipe has the coefficients of the stream's own kernels: the same arithmetic elsewhere (a device) gives the same bits. */
static dpmf_status check_elsewhere(const dpmf_noise *noise) {
    TRY(noise_check_usable(noise));
    if (noise->elsewhere) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED, "this stream makes its own rows: its options name no maker");
}

dpmf_status dpmf_noise_recipe(dpmf_noise *noise, int64_t step, dpmf_recipe *out) {
    TRY(check_elsewhere(noise));
    return noise_stream_recipe(noise->stream, step, noise->recipe_seed, out);
}

dpmf_status dpmf_noise_subkey(dpmf_noise *noise, uint8_t subkey[DPMF_KEY_SIZE]) {
    static const uint8_t none[DPMF_KEY_SIZE];
    TRY(check_elsewhere(noise));
    if (memcmp(noise->subkey, none, sizeof none) == 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the key of the seeds has been given already: it is given once");
    memcpy(subkey, noise->subkey, sizeof noise->subkey);
    crypto_wipe(noise->subkey, sizeof noise->subkey);
    return DPMF_OK;
}

dpmf_status dpmf_noise_reserve(dpmf_noise *noise, double factor, double *scale) {
    TRY(check_elsewhere(noise));
    TRY(check_row(noise));
    TRY(check_factor(noise, factor));
    TRY(noise_check_bound(noise));
    TRY(noise_reserve(noise));
    *scale = factor * noise->release.scale;
    return DPMF_OK;
}

dpmf_status dpmf_noise_arrived(dpmf_noise *noise) {
    TRY(check_elsewhere(noise));
    if (noise->step >= noise->binding.steps || (noise->state != NULL && noise->step >= dpmf_noise_get(noise).reserved))
        return base_fail(DPMF_ERROR_ARGUMENT, "row %" PRId64 " has not been reserved: it cannot have arrived",
                         noise->step);
    noise->step++;
    noise->bound = 0;
    return DPMF_OK;
}
