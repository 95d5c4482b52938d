/* SPDX-License-Identifier: Apache-2.0 */
/* What `dpmf train` is made of: data, a plan of batches, a mechanism, a sampler, a trainer, an answer. */
#ifndef DPMF_CLI_TRAIN_H
#define DPMF_CLI_TRAIN_H

#include "dpmf.h"
#include "options.h"
#include "output.h"

typedef struct training {
    const arguments *given;
    dpmf_dataset *train, *test;
    int64_t hidden, dim;
    int64_t units; /* examples or users that batches are drawn from */
    /* The plan: for a fixed order, `batch` units at a time, `epoch` steps an epoch. */
    int64_t steps, epochs, batch, epoch;
    dpmf_workload *workload; /* what the mechanism is designed for */
    double *schedule;        /* NULL: constant */
    dpmf_design *design;     /* owns the mechanism, if it was designed here */
    dpmf_mechanism *own;     /* owns it otherwise */
    const dpmf_mechanism *mechanism;
    dpmf_sampler *sampler;
    dpmf_trainer_options how;
    dpmf_trainer *trainer;
    uint8_t key[DPMF_KEY_SIZE];
    int64_t resumed_at;
    double seconds, accuracy, loss;
} training;

/* Each: 0, or the exit code after a message. */
int training_data(training *t);        /* train, test, the model's size (train_data.c) */
int training_plan(training *t);        /* steps, epochs, batch from two of the three, or from the mechanism */
int training_workload(training *t);    /* workload and schedule */
int training_mechanism(training *t);   /* designed, or from a file, or from an earlier run (train_mechanism.c) */
int training_sampler(training *t);     /* what the mechanism assumes */
int training_print(const training *t); /* train_answer.c */

#endif
