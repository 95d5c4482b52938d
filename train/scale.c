/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features on another scale, without a look at anybody's data but the example's own.
 *
 *     columns:  x_j <- (x_j - offset_j) factor_j      with numbers that the caller knows from elsewhere
 *     rows:     x   <- x / |x|                        each example by itself; a row of zeros stays
 *
 * Means and deviations of the training data would be the usual numbers, but each depends on every example: a model trained
 * on them would depend on an example beyond its clipped gradient, and no noise hides that. So this file computes none.
 *
 * A row that had a number that is not finite stays marked (train/grid.h), and goes on to add 0 to every sum.
 */
#include "train/dataset.h"

#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void scale_columns(dpmf_dataset *data, const double *offset, const double *factor) {
    for (int64_t i = 0; i < data->count; i++) {
        float *x = data->x + i * data->features;
        if (isnan(data->input[i].square)) continue;
        for (int64_t j = 0; j < data->features; j++)
            x[j] = (float)(((double)x[j] - offset[j]) * factor[j]);
        data->input[i] = train_round_inputs(data->features, x);
    }
}

static void scale_rows(dpmf_dataset *data) {
    for (int64_t i = 0; i < data->count; i++) {
        float *x = data->x + i * data->features;
        const double norm = sqrt(train_square_of(data->features, x));
        if (isnan(data->input[i].square) || norm == 0.0) continue;
        for (int64_t j = 0; j < data->features; j++)
            x[j] = (float)((double)x[j] / norm);
        data->input[i] = train_round_inputs(data->features, x);
    }
}

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
    if (offset != NULL)
        scale_columns(dataset, offset, factor);
    else
        scale_rows(dataset);
    memcpy(dataset->digest, digest, sizeof digest);
    return DPMF_OK;
}
