/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattering features in place of the pixels of a data set (train/scattering.c has their definition).
 *
 * A feature is the normalised number, rounded to half precision (nearest, ties to even), divided by the square root of the
 * number of features: rounding is part of the definition, so that a file of two bytes per number gives the same features
 * as computing them. The digest of the old data set, the shape and the options names the file; the new data set's digest covers it
 * and the numbers themselves, so that a file with other numbers makes another data set, whose noise is other noise.
 */
#include "train/scattering.h"

#include "base/file.h"
#include "base/memory.h"
#include "train/kernels/half/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SCALES = 2, ANGLES = 8, SLAB = 8 * TRAIN_FEATURES_BLOCK }; /* examples between two reports of progress */

dpmf_scattering_options dpmf_scattering_options_defaults(void) {
    return (dpmf_scattering_options){.scales = SCALES, .angles = ANGLES};
}

typedef struct extraction {
    dpmf_dataset *data;
    train_scattering *plan; /* NULL: the features are read */
    const kernels_scatter_set *set;
    base_pool *pool;
    const dpmf_run *run;
    float factor;     /* 1/sqrt(features) */
    train_rows *rows; /* out */
    train_features_name name;
    char sum[65]; /* of the numbers */
    const train_features_reader *reader;
    int64_t from;     /* the first example of the slab */
    uint16_t *halves; /* of the slab; while reading: of one block per thread */
    float **room;     /* one per thread */
} extraction;

/* Example i from its numbers of half precision; an image that was not finite stays marked (train/train.h). */
static void take_example(extraction *e, int64_t i, const uint16_t *halves) {
    float *x = e->rows->x + i * e->name.features;
    kernels_half_get()->widen(e->name.features, halves, e->factor, x);
    e->rows->input[i] = train_round_inputs(e->name.features, x);
}

/* Another part of the sentence. */
static void add_note(dpmf_scattering_result *result, const char *text) {
    const size_t length = strlen(result->note);
    snprintf(result->note + length, sizeof result->note - length, "%s%s", length > 0 ? "; " : "", text);
}

static void note_failure(dpmf_scattering_result *result) {
    add_note(result, "the features are not kept: ");
    const size_t length = strlen(result->note);
    snprintf(result->note + length, sizeof result->note - length, "%s", dpmf_last_error());
}

/* ---- computing ---- */

/* The images of one set of lanes. */
static dpmf_status scatter_lanes(void *context, int64_t item, int worker) {
    extraction *e = context;
    const int64_t lanes = e->set->lanes, features = e->name.features, within = item * lanes;
    const int64_t first = e->from + within, left = e->name.count - first, count = left < lanes ? left : lanes;
    float *room = e->room[worker],
          *row = e->rows->x + first * features; /* the rows are filled later: one serves as scratch */
    train_scattering_apply(e->plan, e->set, count, e->data->x + first * e->data->features, room);
    for (int64_t l = 0; l < count; l++) {
        uint16_t *halves = e->halves + (within + l) * features;
        const float missing = isnan(e->data->input[first + l].square) ? NAN : 0.0f;
        for (int64_t i = 0; i < features; i++)
            row[i] = room[i * lanes + l] + missing;
        kernels_half_get()->narrow(features, row, halves);
    }
    for (int64_t l = 0; l < count; l++)
        take_example(e, first + l, e->halves + (within + l) * features);
    return DPMF_OK;
}

/* All features, summed up and, where the writer has a file, written. */
static dpmf_status compute(extraction *e, train_features_writer *writer, dpmf_scattering_result *result) {
    const int64_t lanes = e->set->lanes;
    for (e->from = 0; e->from < e->name.count; e->from += SLAB) {
        const int64_t left = e->name.count - e->from, count = left < SLAB ? left : SLAB;
        int lost = 0;
        TRY(base_progress(e->run, "scattering", (double)e->from / (double)e->name.count));
        TRY(base_pool_run(e->pool, (count + lanes - 1) / lanes, scatter_lanes, e));
        TRY(train_features_write(writer, count, e->halves, &lost));
        if (lost) note_failure(result);
    }
    return train_features_sum(writer, e->sum);
}

/* ---- reading ---- */

static dpmf_status read_block(void *context, int64_t item, int worker) {
    extraction *e = context;
    const int64_t block = e->from / TRAIN_FEATURES_BLOCK + item, first = block * TRAIN_FEATURES_BLOCK;
    uint16_t *halves = e->halves + (int64_t)worker * TRAIN_FEATURES_BLOCK * e->name.features;
    TRY(train_features_read(e->reader, block, halves));
    for (int64_t i = first; i < e->name.count && i < first + TRAIN_FEATURES_BLOCK; i++)
        take_example(e, i, halves + (i - first) * e->name.features);
    return DPMF_OK;
}

static dpmf_status read_all(extraction *e) {
    for (e->from = 0; e->from < e->name.count; e->from += SLAB) {
        const int64_t left = e->name.count - e->from, count = left < SLAB ? left : SLAB;
        TRY(base_progress(e->run, "features", (double)e->from / (double)e->name.count));
        TRY(base_pool_run(e->pool, (count + TRAIN_FEATURES_BLOCK - 1) / TRAIN_FEATURES_BLOCK, read_block, e));
    }
    return DPMF_OK;
}

/* ---- the call ---- */

static dpmf_status name_features(const dpmf_dataset *data, const dpmf_scattering_options *o, int64_t features,
                                 train_features_name *out) {
    const int64_t how[] = {data->channels, data->height, data->width, o->scales, o->angles};
    const base_part parts[] = {
        {"dpmf scattering 1", 17}, {data->digest, 64}, {how, sizeof how}, {"pink noise", o->pink ? 10 : 0}};
    out->count = data->count;
    out->features = features;
    return base_sha256(o->pink ? 4 : 3, parts, out->digest);
}

/* Reads the first file that is there; DPMF_ERROR_IO: there is none. A damaged one leaves a note and is as good as none. */
static dpmf_status try_files(extraction *e, const dpmf_scattering_options *o, dpmf_scattering_result *result) {
    for (size_t i = 0; i < sizeof o->cache / sizeof *o->cache && o->cache[i] != NULL; i++) {
        train_features_reader *reader = NULL;
        char path[TRAIN_FEATURES_PATH], shown[BASE_SHOWN_PATH];
        if (train_features_path(o->cache[i], &e->name, path) != DPMF_OK || access(path, F_OK) != 0) continue;
        dpmf_status status = train_features_open(path, &e->name, &reader);
        e->reader = reader;
        if (status == DPMF_OK) status = read_all(e);
        if (status == DPMF_OK) train_features_read_sum(reader, e->sum);
        train_features_done(reader);
        if (status == DPMF_OK) {
            result->cache = DPMF_CACHE_READ;
            return DPMF_OK;
        }
        if (status != DPMF_ERROR_FORMAT && status != DPMF_ERROR_IO) return status;
        snprintf(result->note, sizeof result->note, "the features file '%s' is not used: %s",
                 base_show_path(path, shown), dpmf_last_error());
    }
    return DPMF_ERROR_IO;
}

/* In the first directory that takes it, or without a file. */
static dpmf_status open_writer(const extraction *e, const dpmf_scattering_options *o, dpmf_scattering_result *result,
                               train_features_writer **out) {
    char path[TRAIN_FEATURES_PATH];
    for (size_t i = 0; i < sizeof o->cache / sizeof *o->cache && o->cache[i] != NULL; i++)
        if (train_features_path(o->cache[i], &e->name, path) == DPMF_OK &&
            train_features_begin(path, &e->name, out) == DPMF_OK)
            return DPMF_OK;
    if (o->cache[0] != NULL) note_failure(result);
    return train_features_begin(NULL, &e->name, out);
}

static dpmf_status compute_and_keep(extraction *e, const dpmf_scattering_options *o, dpmf_scattering_result *result) {
    train_features_writer *writer = NULL;
    if (result->note[0] != '\0') add_note(result, "they are computed again");
    TRY(open_writer(e, o, result, &writer));
    dpmf_status status = compute(e, writer, result);
    result->cache = o->cache[0] == NULL ? DPMF_CACHE_UNUSED : DPMF_CACHE_FAILED;
    if (status == DPMF_OK && train_features_kept(writer)) {
        if (train_features_commit(writer) == DPMF_OK)
            result->cache = DPMF_CACHE_WRITTEN;
        else
            note_failure(result);
    }
    train_features_close(writer);
    return status;
}

static dpmf_status allocate(extraction *e, int64_t blocks) {
    const int64_t count = e->name.count < SLAB ? e->name.count : SLAB, read = blocks * TRAIN_FEATURES_BLOCK;
    if (e->name.features > INT64_MAX / 8 / e->name.count)
        return base_fail(DPMF_ERROR_MEMORY, "no memory for %" PRId64 " x %" PRId64 " features", e->name.count,
                         e->name.features);
    TRY(train_rows_create(e->name.count, e->name.features, &e->rows));
    return base_alloc((count > read ? count : read) * e->name.features, sizeof *e->halves, "the features",
                      (void **)&e->halves);
}

dpmf_status dpmf_dataset_scatter(dpmf_dataset *dataset, const dpmf_scattering_options *options,
                                 dpmf_scattering_result *result) {
    dpmf_status status = DPMF_OK;
    const dpmf_scattering_options o = options != NULL ? *options : dpmf_scattering_options_defaults();
    dpmf_scattering_result made = {.cache = DPMF_CACHE_UNUSED};
    extraction e = {.data = dataset, .run = &o.run, .set = kernels_scatter_get()};
    int threads = 0;
    if (dataset == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_dataset_scatter: the data set is NULL");
    TRY(train_scattering_create(dataset->channels, dataset->height, dataset->width, o.scales, o.angles, &e.plan));
    TRY_DONE(name_features(dataset, &o, e.plan->features, &e.name));
    TRY_DONE(base_pool_create(o.run.threads, &e.pool));
    threads = base_pool_threads(e.pool);
    TRY_DONE(allocate(&e, threads));
    e.factor = (float)(1.0 / sqrt((double)e.name.features));
    status = try_files(&e, &o, &made);
    if (status == DPMF_ERROR_IO) {
        if (o.pink) TRY_DONE(train_scattering_measure(e.plan, e.set));
        TRY_DONE(base_alloc(threads, sizeof *e.room, "scattering", (void **)&e.room));
        for (int i = 0; i < threads; i++)
            TRY_DONE(train_scattering_room(e.plan, e.set, &e.room[i]));
        status = compute_and_keep(&e, &o, &made);
    }
    if (status != DPMF_OK) goto done;
    const base_part parts[] = {{"dpmf features 1", 15}, {e.name.digest, 64}, {e.sum, 64}};
    char digest[sizeof dataset->digest];
    TRY_DONE(base_sha256(3, parts, digest));
    train_dataset_install(dataset, e.rows, e.name.features);
    e.rows = NULL;
    dataset->channels = dataset->height = dataset->width = 0;
    dataset->names[0] = '\0';
    memcpy(dataset->digest, digest, sizeof digest);
    if (result != NULL) *result = made;
done:
    for (int i = 0; e.room != NULL && i < threads; i++)
        base_free(e.room[i]);
    base_free((void *)e.room);
    base_free(e.halves);
    train_rows_leave(e.rows);
    base_pool_free(e.pool);
    train_scattering_free(e.plan);
    return status;
}
