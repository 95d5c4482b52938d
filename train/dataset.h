/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: examples in memory as float rows, their labels, and, where users are known, whose they are. */
#ifndef TRAIN_DATASET_H
#define TRAIN_DATASET_H

#include "base/status.h"
#include "dpmf_train.h"
#include "train/grid.h"

/* Bounds that keep every size below far from overflow; what memory allows is the allocator's to say. */
#define TRAIN_EXAMPLES_MAX ((int64_t)1 << 40)
#define TRAIN_FEATURES_MAX ((int64_t)1 << 24)
enum { TRAIN_CLASSES_MAX = 65536 };

struct dpmf_dataset {
    int64_t count, features, classes;
    int64_t units;      /* users; the number of examples where `unit` is NULL */
    float *x;           /* count x features, on grids (train/grid.h); a row that was not finite is 0 */
    train_input *input; /* those grids */
    int32_t *label;     /* in [0, classes) */
    int64_t *unit;      /* NULL, or the user of each example, in [0, units) */
    char names[65];     /* SHA-256 of the names of the features, in order; empty: they have none */
    char digest[65];    /* SHA-256 of what it was made from; two data sets with one digest are equal */
};

/* A data set whose arrays are still to be filled in; `with_units`: `unit` is there too. */
DPMF_MUST_CHECK dpmf_status train_dataset_allocate(int64_t count, int64_t features, int with_units, dpmf_dataset **out);

/* classes = the largest label + 1. */
void train_dataset_count_classes(dpmf_dataset *dataset);

/* Puts the features on their grids; after that the data set may be used. */
void train_dataset_finish(dpmf_dataset *dataset);

/* SHA-256 of the numbers themselves into `digest`, before they are put on grids. */
DPMF_MUST_CHECK dpmf_status train_dataset_digest(dpmf_dataset *dataset);

/*
 * IDX from memory, plain or gzip; the payload is allocated (base_free). `dimensions` is 1 or 3, `shape` what the
 * header says. Refused: another magic, a size that the header does not explain, bytes that follow. `name` is for
 * messages.
 */
DPMF_MUST_CHECK dpmf_status train_idx_decode(const uint8_t *bytes, size_t size, const char *name, int dimensions,
                                             int64_t shape[3], uint8_t **payload);

/* CSV from memory; `name` is for messages. */
DPMF_MUST_CHECK dpmf_status train_csv_decode(const char *text, size_t size, const char *name, const char *label,
                                             const char *unit, dpmf_dataset **out);

#endif
