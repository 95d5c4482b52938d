/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sets in memory.
 *
 * The digest is what a checkpoint and the noise of a training run are bound to. It covers what the data set was made
 * from (the numbers, the bytes of its files, or another data set and a range of it), so that it costs no second pass over
 * the floats where there is something shorter.
 */
#include "train/train.h"

#include "base/file.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- rows ---- */

void train_rows_leave(train_rows *rows) {
    if (rows == NULL || atomic_fetch_sub(&rows->owners, 1) > 1) return;
    base_free(rows->x);
    base_free(rows->input);
    base_free(rows);
}

dpmf_status train_rows_create(int64_t count, int64_t features, train_rows **out) {
    dpmf_status status = DPMF_OK;
    train_rows *made = NULL;
    TRY(base_alloc(1, sizeof *made, "the examples", (void **)&made));
    atomic_init(&made->owners, 1);
    TRY_DONE(base_alloc(count * features, sizeof(float), "the examples", (void **)&made->x));
    TRY_DONE(base_alloc(count, sizeof *made->input, "the examples", (void **)&made->input));
done:
    if (status == DPMF_OK)
        *out = made;
    else
        train_rows_leave(made);
    return status;
}

void train_dataset_install(dpmf_dataset *dataset, train_rows *rows, int64_t features) {
    train_rows_leave(dataset->rows);
    dataset->features = features;
    dataset->rows = rows;
    dataset->x = rows->x;
    dataset->input = rows->input;
}

/* Before rows are changed: a copy, unless they are this data set's alone. */
static dpmf_status own_rows(dpmf_dataset *dataset) {
    train_rows *rows = NULL;
    if (atomic_load(&dataset->rows->owners) == 1) return DPMF_OK;
    TRY(train_rows_create(dataset->count, dataset->features, &rows));
    memcpy(rows->x, dataset->x, (size_t)(dataset->count * dataset->features) * sizeof(float));
    memcpy(rows->input, dataset->input, (size_t)dataset->count * sizeof *rows->input);
    train_dataset_install(dataset, rows, dataset->features);
    return DPMF_OK;
}

/* ---- data sets ---- */

void dpmf_dataset_free(dpmf_dataset *dataset) {
    if (dataset == NULL) return;
    train_rows_leave(dataset->rows);
    base_free(dataset->label);
    base_free(dataset->unit);
    base_free(dataset);
}

int64_t dpmf_dataset_count(const dpmf_dataset *dataset) {
    return dataset != NULL ? dataset->count : 0;
}

int64_t dpmf_dataset_features(const dpmf_dataset *dataset) {
    return dataset != NULL ? dataset->features : 0;
}

int64_t dpmf_dataset_classes(const dpmf_dataset *dataset) {
    return dataset != NULL ? dataset->classes : 0;
}

const int32_t *dpmf_dataset_labels(const dpmf_dataset *dataset) {
    return dataset != NULL ? dataset->label : NULL;
}

int64_t dpmf_dataset_units(const dpmf_dataset *dataset) {
    return dataset != NULL ? dataset->units : 0;
}

void dpmf_dataset_shape(const dpmf_dataset *dataset, int64_t shape[3]) {
    shape[0] = dataset != NULL ? dataset->channels : 0;
    shape[1] = dataset != NULL ? dataset->height : 0;
    shape[2] = dataset != NULL ? dataset->width : 0;
}

dpmf_status dpmf_dataset_set_shape(dpmf_dataset *dataset, const int64_t shape[3]) {
    if (dataset == NULL || shape == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_dataset_set_shape: the data set or the shape is NULL");
    int64_t left = dataset->features;
    for (int i = 0; i < 3; i++)
        left = shape[i] > 0 && left % shape[i] == 0 ? left / shape[i] : 0;
    if (left != 1)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a shape of %" PRId64 " x %" PRId64 " x %" PRId64 ", accepted: a product of %" PRId64
                         ", the number of features",
                         shape[0], shape[1], shape[2], dataset->features);
    dataset->channels = shape[0];
    dataset->height = shape[1];
    dataset->width = shape[2];
    return DPMF_OK;
}

/* A part of a data set has its features. */
static void keep_features(const dpmf_dataset *from, dpmf_dataset *to) {
    to->channels = from->channels;
    to->height = from->height;
    to->width = from->width;
    memcpy(to->names, from->names, sizeof to->names);
}

/* Without its rows. */
static dpmf_status allocate_without_rows(int64_t count, int64_t features, int with_units, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    dpmf_dataset *made = NULL;
    TRY(base_alloc(1, sizeof *made, "a data set", (void **)&made));
    made->count = made->units = count;
    made->features = features;
    TRY_DONE(base_alloc(count, sizeof(int32_t), "the labels", (void **)&made->label));
    if (with_units) TRY_DONE(base_alloc(count, sizeof(int64_t), "the users", (void **)&made->unit));
done:
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_dataset_free(made);
    return status;
}

dpmf_status train_dataset_allocate(int64_t count, int64_t features, int with_units, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    dpmf_dataset *made = NULL;
    train_rows *rows = NULL;
    if (count < 1 || count > TRAIN_EXAMPLES_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "a data set of %" PRId64 " examples, accepted: 1 to 2^40", count);
    if (features < 1 || features > TRAIN_FEATURES_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "a data set of %" PRId64 " features, accepted: 1 to 2^24", features);
    if (features > INT64_MAX / 8 / count)
        return base_fail(DPMF_ERROR_MEMORY, "no memory for %" PRId64 " x %" PRId64 " numbers", count, features);
    TRY_DONE(train_rows_create(count, features, &rows));
    TRY_DONE(allocate_without_rows(count, features, with_units, &made));
    train_dataset_install(made, rows, features);
    rows = NULL;
    *out = made;
done:
    train_rows_leave(rows);
    return status;
}

void train_dataset_count_classes(dpmf_dataset *dataset) {
    int32_t largest = 0;
    for (int64_t i = 0; i < dataset->count; i++)
        if (dataset->label[i] > largest) largest = dataset->label[i];
    dataset->classes = (int64_t)largest + 1;
}

void train_dataset_finish(dpmf_dataset *dataset) {
    for (int64_t i = 0; i < dataset->count; i++)
        dataset->input[i] = train_round_inputs(dataset->features, dataset->x + i * dataset->features);
}

dpmf_status train_dataset_digest(dpmf_dataset *dataset) {
    const int64_t head[] = {dataset->count, dataset->features, dataset->classes, dataset->units, dataset->unit != NULL};
    const size_t count = (size_t)dataset->count;
    const base_part parts[] = {{"dpmf data 1", 11},
                               {head, sizeof head},
                               {dataset->x, count * (size_t)dataset->features * sizeof(float)},
                               {dataset->label, count * sizeof(int32_t)},
                               {dataset->unit, dataset->unit != NULL ? count * sizeof(int64_t) : 0}};
    return base_sha256(dataset->unit != NULL ? 5 : 4, parts, dataset->digest);
}

static dpmf_status fill_examples(dpmf_dataset *made, const float *x, const int32_t *label, const int64_t *unit) {
    int64_t users = 0;
    for (int64_t i = 0; i < made->count; i++) {
        if (label[i] < 0 || label[i] >= made->classes)
            return base_fail(DPMF_ERROR_ARGUMENT, "example %" PRId64 " has label %d, accepted: 0 to %" PRId64, i,
                             (int)label[i], made->classes - 1);
        if (unit == NULL) continue;
        if (unit[i] < 0 || unit[i] >= TRAIN_EXAMPLES_MAX)
            return base_fail(DPMF_ERROR_ARGUMENT, "example %" PRId64 " has unit %" PRId64 ", accepted: 0 to 2^40 - 1",
                             i, unit[i]);
        if (unit[i] >= users) users = unit[i] + 1;
    }
    const size_t count = (size_t)made->count;
    memcpy(made->x, x, count * (size_t)made->features * sizeof *x);
    memcpy(made->label, label, count * sizeof *label);
    if (unit != NULL) memcpy(made->unit, unit, count * sizeof *unit);
    if (unit != NULL) made->units = users;
    return DPMF_OK;
}

dpmf_status dpmf_dataset_create(int64_t count, int64_t features, int64_t classes, const float *x, const int32_t *label,
                                const int64_t *unit, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    dpmf_dataset *made = NULL;
    if (x == NULL || label == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_dataset_create: x, label or out is NULL");
    if (classes < 1 || classes > TRAIN_CLASSES_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "a data set of %" PRId64 " classes, accepted: 1 to %d", classes,
                         TRAIN_CLASSES_MAX);
    TRY(train_dataset_allocate(count, features, unit != NULL, &made));
    made->classes = classes;
    TRY_DONE(fill_examples(made, x, label, unit));
    TRY_DONE(train_dataset_digest(made));
    train_dataset_finish(made);
done:
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_dataset_free(made);
    return status;
}

dpmf_status dpmf_dataset_slice(const dpmf_dataset *dataset, int64_t first, int64_t count, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    dpmf_dataset *made = NULL;
    if (dataset == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_dataset_slice: the data set or out is NULL");
    if (first < 0 || count < 1 || first > dataset->count || count > dataset->count - first)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "examples %" PRId64 " to %" PRId64 " + %" PRId64 " - 1 of a data set, accepted: at least one "
                         "of 0 to %" PRId64,
                         first, first, count, dataset->count - 1);
    TRY(allocate_without_rows(count, dataset->features, dataset->unit != NULL, &made));
    made->classes = dataset->classes;
    keep_features(dataset, made);
    atomic_fetch_add(&dataset->rows->owners, 1);
    made->rows = dataset->rows;
    made->x = dataset->x + first * dataset->features;
    made->input = dataset->input + first;
    memcpy(made->label, dataset->label + first, (size_t)count * sizeof(int32_t));
    if (dataset->unit != NULL) {
        memcpy(made->unit, dataset->unit + first, (size_t)count * sizeof(int64_t));
        made->units = dataset->units;
    }
    const int64_t range[] = {first, count};
    const base_part parts[] = {{"dpmf slice 1", 12}, {dataset->digest, 64}, {range, sizeof range}};
    TRY_DONE(base_sha256(3, parts, made->digest));
done:
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_dataset_free(made);
    return status;
}

/* The examples of users from first_user on (`late`), or of those before, in their order; users keep their numbers. */
static dpmf_status take_examples(const dpmf_dataset *from, int64_t first_user, int64_t count, int late, int64_t users,
                                 dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    dpmf_dataset *made = NULL;
    int64_t at = 0;
    TRY(train_dataset_allocate(count, from->features, 1, &made));
    made->classes = from->classes;
    made->units = users;
    keep_features(from, made);
    for (int64_t i = 0; i < from->count; i++) {
        if ((from->unit[i] >= first_user) != late) continue;
        memcpy(made->x + at * from->features, from->x + i * from->features, (size_t)from->features * sizeof(float));
        made->input[at] = from->input[i];
        made->label[at] = from->label[i];
        made->unit[at++] = from->unit[i];
    }
    const int64_t choice[] = {first_user, late};
    const base_part parts[] = {{"dpmf users 1", 12}, {from->digest, 64}, {choice, sizeof choice}};
    TRY_DONE(base_sha256(3, parts, made->digest));
done:
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_dataset_free(made);
    return status;
}

dpmf_status dpmf_dataset_split(const dpmf_dataset *dataset, int64_t held, int by_unit, dpmf_dataset **left,
                               dpmf_dataset **out) {
    int64_t user = 0, count = 0;
    dpmf_dataset *kept = NULL, *test = NULL;
    if (dataset == NULL || left == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_dataset_split: the data set, left or out is NULL");
    if (held < 1 || held >= dataset->count)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " examples held out, accepted: 1 to %" PRId64, held,
                         dataset->count - 1);
    if (by_unit && dataset->unit == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "users held out: the data set has no users");
    dpmf_status status = DPMF_OK;
    if (!by_unit) {
        TRY_DONE(dpmf_dataset_slice(dataset, dataset->count - held, held, &test));
        TRY_DONE(dpmf_dataset_slice(dataset, 0, dataset->count - held, &kept));
    } else {
        /* The first of the last users who together have at least `held` examples, and how many they have. */
        int64_t *sizes = NULL;
        TRY_DONE(base_alloc(dataset->units, sizeof *sizes, "the users", (void **)&sizes));
        for (int64_t i = 0; i < dataset->count; i++)
            sizes[dataset->unit[i]]++;
        user = dataset->units;
        count = 0;
        while (user > 0 && count < held)
            count += sizes[--user];
        base_free(sizes);
        if (count == dataset->count) {
            status = base_fail(DPMF_ERROR_ARGUMENT,
                               "%" PRId64 " examples held out with their users: no user would be left", held);
            goto done;
        }
        TRY_DONE(take_examples(dataset, user, count, 1, dataset->units, &test));
        TRY_DONE(take_examples(dataset, user, dataset->count - count, 0, user, &kept));
    }
    *left = kept;
    *out = test;
    kept = test = NULL;
done:
    dpmf_dataset_free(kept);
    dpmf_dataset_free(test);
    return status;
}

/*
 * Features on another scale, without a look at anybody's data but the example's own.
 *
 *     columns:  x_j <- (x_j - offset_j) factor_j      with numbers that the caller knows from elsewhere
 *     rows:     x   <- x / |x|                        each example by itself; a row of zeros stays
 *
 * Means and deviations of the training data would be the usual numbers, but each depends on every example: a model trained
 * on them would depend on an example beyond its clipped gradient, and no noise hides that. So this file computes none.
 *
 * A row that had a number that is not finite stays marked (train/train.h), and goes on to add 0 to every sum.
 */

static dpmf_status check_columns(const dpmf_dataset *data, const double *offset, const double *factor) {
    for (int64_t j = 0; j < data->features; j++)
        if (!isfinite(offset[j]) || !isfinite(factor[j]))
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "feature %" PRId64 " has offset %g and factor %g, accepted: finite numbers", j, offset[j],
                             factor[j]);
    return DPMF_OK;
}

dpmf_status dpmf_dataset_scale(dpmf_dataset *dataset, const double *offset, const double *factor) {
    if (dataset == NULL || (offset == NULL) != (factor == NULL))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "dpmf_dataset_scale: the data set is NULL, or only one of offset and factor is");
    if (offset != NULL) TRY(check_columns(dataset, offset, factor));
    const size_t size = offset != NULL ? (size_t)dataset->features * sizeof *offset : 0;
    const base_part parts[] = {{"dpmf scale 1", 12}, {dataset->digest, 64}, {offset, size}, {factor, size}};
    char digest[sizeof dataset->digest];
    TRY(base_sha256(offset != NULL ? 4 : 2, parts, digest));
    TRY(own_rows(dataset));
    if (offset != NULL) {
        for (int64_t i = 0; i < dataset->count; i++) {
            float *x = dataset->x + i * dataset->features;
            if (isnan(dataset->input[i].square)) continue;
            for (int64_t j = 0; j < dataset->features; j++)
                x[j] = (float)(((double)x[j] - offset[j]) * factor[j]);
            dataset->input[i] = train_round_inputs(dataset->features, x);
        }
    } else {
        for (int64_t i = 0; i < dataset->count; i++) {
            float *x = dataset->x + i * dataset->features;
            const double norm = sqrt(train_square_of(dataset->features, x));
            if (isnan(dataset->input[i].square) || norm == 0.0) continue;
            for (int64_t j = 0; j < dataset->features; j++)
                x[j] = (float)((double)x[j] / norm);
            dataset->input[i] = train_round_inputs(dataset->features, x);
        }
    }
    memcpy(dataset->digest, digest, sizeof digest);
    return DPMF_OK;
}
