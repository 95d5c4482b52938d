/* SPDX-License-Identifier: Apache-2.0 */
/* Scattering features: the plan of one size of images, the features of some of them, and the file that keeps them. */
#ifndef TRAIN_SCATTERING_H
#define TRAIN_SCATTERING_H

#include "train/kernels/scatter/scatter.h"
#include "train/train.h"

enum { TRAIN_SCATTERING_GROUP = 3 }; /* channels that are normalised together; the last group has the rest */

/* What the kernel needs for images of one size, and how they are padded. */
typedef struct train_scattering {
    kernels_scatter_plan kernel;
    int64_t channels, height, width; /* of an image */
    int64_t above, left;             /* where it begins in the padded one */
    int64_t channel;                 /* features of each of the image's channels */
    int64_t features;
    float *filters, *tables;
    float *usual; /* mean and 1/deviation of each path over noise; NULL: normalised in groups */
} train_scattering;

DPMF_MUST_CHECK dpmf_status train_scattering_create(int64_t channels, int64_t height, int64_t width, int64_t scales,
                                                    int64_t angles, train_scattering **out);
void train_scattering_free(train_scattering *plan);

/* From here on paths are put on the scale that they have over images of noise (train/pink.c). */
DPMF_MUST_CHECK dpmf_status train_scattering_measure(train_scattering *plan, const kernels_scatter_set *set);

/* Room of one thread, for train_scattering_apply with a set of the kernel. */
DPMF_MUST_CHECK dpmf_status train_scattering_room(const train_scattering *plan, const kernels_scatter_set *set,
                                                  float **out);

/*
 * Normalised features, before they are rounded and divided, of up to set->lanes images `x` one after the other: `room` then
 * begins with plan->features x lanes numbers, those of the lanes side by side.
 */
void train_scattering_apply(const train_scattering *plan, const kernels_scatter_set *set, int64_t count, const float *x,
                            float *room);

/* ---- the file of features (train/features_file.c): numbers of half precision, in blocks with a digest each ---- */

enum { TRAIN_FEATURES_BLOCK = 256 }; /* examples */

typedef struct train_features_name {
    char digest[65]; /* of what they are made from, and how */
    int64_t count, features;
} train_features_name;

/* DIRECTORY/dpmf-features-DIGITS; DPMF_ERROR_ARGUMENT if it is too long. */
enum { TRAIN_FEATURES_PATH = 4096 };
DPMF_MUST_CHECK dpmf_status train_features_path(const char *directory, const train_features_name *name,
                                                char out[TRAIN_FEATURES_PATH]);

/* A file that is written block by block, in order; with path NULL the numbers are summed up only. */
typedef struct train_features_writer train_features_writer;
DPMF_MUST_CHECK dpmf_status train_features_begin(const char *path, const train_features_name *name,
                                                 train_features_writer **out);
/* *lost: the file cannot be written, and is given up; the message is set, and the numbers are summed up all the same. */
DPMF_MUST_CHECK dpmf_status train_features_write(train_features_writer *writer, int64_t count, const uint16_t *numbers,
                                                 int *lost);
int train_features_kept(const train_features_writer *writer); /* is there a file that can be committed? */
DPMF_MUST_CHECK dpmf_status train_features_sum(const train_features_writer *writer, char out[65]); /* of all numbers */
DPMF_MUST_CHECK dpmf_status train_features_commit(train_features_writer *writer);
void train_features_close(train_features_writer *writer); /* what was not committed is removed */

/* DPMF_ERROR_IO: it cannot be read; DPMF_ERROR_FORMAT: it is not the file of this name. */
typedef struct train_features_reader train_features_reader;
DPMF_MUST_CHECK dpmf_status train_features_open(const char *path, const train_features_name *name,
                                                train_features_reader **out);
/* Block `index` into `numbers`, its digest checked; any thread. */
DPMF_MUST_CHECK dpmf_status train_features_read(const train_features_reader *reader, int64_t index, uint16_t *numbers);
void train_features_read_sum(const train_features_reader *reader, char out[65]); /* that of the writer */
void train_features_done(train_features_reader *reader);

#endif
