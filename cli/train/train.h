/* SPDX-License-Identifier: Apache-2.0 */
/* What `dpmf train` is made of: data, a plan of batches, a mechanism, a sampler, a trainer, an answer. */
#ifndef DPMF_CLI_TRAIN_H
#define DPMF_CLI_TRAIN_H

#include "dpmf_train.h"
#include "options/options.h"
#include "output.h"

enum { TRAINING_PATH = 4200 };
#define TRAINING_ANY "any" /* --sampling: every one whose account needs no simulation, and none */

typedef struct training {
    const arguments *given;
    dpmf_dataset *train, *test;
    int64_t hidden, dim;
    const char *unit; /* what gradients are clipped for: "example" or "user" */
    int64_t units;    /* of these, that batches are drawn from */
    /* The plan: for a fixed order, `batch` units at a time, `epoch` steps per epoch. */
    int64_t steps, epochs, batch, epoch;
    dpmf_workload *workload; /* what the mechanism is designed for */
    double *schedule;        /* factors of the learning rate, post-processing; NULL: constant */
    dpmf_design *design;     /* owns the mechanism, if it was designed here */
    dpmf_mechanism *own;     /* owns it otherwise */
    const dpmf_mechanism *mechanism;
    dpmf_sampler *sampler;
    dpmf_trainer_options how;
    dpmf_trainer *trainer;
    uint8_t key[DPMF_KEY_SIZE];
    uint8_t salt[DPMF_SALT_SIZE];     /* of the state file */
    char state[TRAINING_PATH];        /* of the state file; empty: none */
    int64_t resumed_at, begun_before; /* steps of the checkpoint, and of the state file */
    double seconds, accuracy, loss;
    text_buffer curve; /* --test-curve: its rows so far */
} training;

/* Each: 0, or the exit code after a message. */
int training_unit(training *t); /* of the FILE or of --unit (train/mechanism.c) */
bool training_by_user(const training *t);
int training_data(training *t);                      /* train, test, the model's size (train/data.c) */
int training_test_data(training *t, bool *labelled); /* test alone, with or without classes, and the model's size */
int training_features(const training *t, dpmf_dataset *data); /* --features in place of pixels (train/features.c) */
int training_plan(training *t);        /* steps, epochs, batch from two of the three (train/plan.c) */
int training_workload(training *t);    /* workload and schedule (train/plan.c) */
int training_mechanism(training *t);   /* designed, or from a file, or from an earlier run (train/mechanism.c) */
int training_sampler(training *t);     /* what the mechanism assumes */
int training_print(const training *t); /* train/answer.c */

/* The sampling that was asked for, or the default; is it this one? (train/plan.c) */
const char *training_sampling(const training *t);
bool training_samples(const training *t, const char *name);

/* The units per batch of a fixed order that has `separation` batches, those that were asked for if possible; 0: none has. */
int64_t training_order(const training *t, int64_t separation);

/* A number that depends on every factor of the schedule. */
uint64_t training_schedule_hash(const training *t);

/* The curve: may it be asked for; the rows of a run that goes on; one more, where one is due; all of them to the file */
int curve_check(const arguments *given);
int curve_open(training *t);
int curve_point(training *t);
int curve_write(const training *t);

/*
 * Several processes that train together (cli/mpi): what one of them does otherwise than a process alone. A call marked
 * collective is made by all of them in the same order, with nothing that can fail between it and an `all` before it.
 */
typedef struct training_team {
    int64_t part, parts;
    dpmf_status (*reduce)(void *context, int64_t *sums, int64_t count); /* collective, as the trainer wants it */
    int (*all)(int code);                    /* collective: 0 if it is 0 everywhere, else the code of one that failed */
    dpmf_status (*step)(dpmf_status status); /* what dpmf_trainer_next gave here; returns what it was for all */
    int (*mechanism)(training *t);           /* collective: the one of part 0, where it is designed */
    int (*key)(training *t);                 /* collective: the one of part 0, where it is fresh */
    int (*agree)(training *t);               /* collective: does everybody run the same? */
    void (*salt)(training *t);               /* collective: the one of part 0 */
    int (*save)(training *t);                /* collective */
    int (*resume)(training *t);              /* collective */
    int (*finish)(training *t);              /* collective: all have the same weights */
} training_team;

extern const training_team *training_together; /* NULL: alone */

/* Is --data a directory of IDX or CIFAR-10 files? Else it is a CSV file. */
bool training_has_directory(const arguments *given);

/* The files of a directory: images and labels (IDX), or the batches (CIFAR-10). 0, or the exit code after a message. */
enum { CIFAR_FILES = 5 };
typedef struct training_paths {
    bool cifar;
    int count;
    char path[CIFAR_FILES][TRAINING_PATH];
} training_paths;
int training_files(const arguments *given, bool test, training_paths *out);

#endif
