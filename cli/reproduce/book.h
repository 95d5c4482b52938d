/* SPDX-License-Identifier: Apache-2.0 */
/* What several figures need, each computed once: losses, noise multipliers, and their products. */
#ifndef DPMF_CLI_REPRODUCE_BOOK_H
#define DPMF_CLI_REPRODUCE_BOOK_H

#include "dpmf.h"

#include <stdint.h>

/* Of every figure of McKenna 2024 that is about privacy. */
#define BOOK_DELTA 1e-8

typedef struct book book;

/* NULL if there is no memory. `run` is borrowed. */
book *book_open(const dpmf_run *run);
void book_close(book *b);
const dpmf_run *book_run(const book *b);

/* RMS loss, single participation, of the best Toeplitz C of so many bands with its columns normalized afterwards. */
dpmf_status toeplitz_loss(book *b, int64_t steps, int64_t bands, double *loss);

/*
 * The same of the best C of so many bands; no such C has less than `*lower`, which may be NULL. They are 1e-6 apart up to
 * 4096 steps, 1e-3 above, and 0.1 with more than 16 bands there.
 */
dpmf_status banded_loss(book *b, int64_t steps, int64_t bands, double *loss, double *lower);

/* RMS loss of the banded square root, single participation. */
dpmf_status square_root_loss(book *b, int64_t steps, int64_t bands, double *loss);

/* Noise multiplier for (epsilon, delta), `compositions` Gaussian releases; under block-cyclic sampling. */
dpmf_status gaussian_sigma(book *b, double epsilon, int64_t compositions, double *sigma);
dpmf_status sampled_sigma(book *b, double epsilon, int64_t steps, int64_t epochs, int64_t bands, double *sigma);

/*
 * RMS of the noise in the sum of the clipped gradients (clip norm 1): noise multiplier x RMS loss. The mechanism with
 * so many bands under block-cyclic sampling; the best number of bands, over powers of two and steps/epochs.
 */
dpmf_status amplified_noise(book *b, double epsilon, int64_t steps, int64_t epochs, int64_t bands, double *noise);
dpmf_status best_noise(book *b, double epsilon, int64_t steps, int64_t epochs, double *noise, int64_t *bands);

/* The number of bands after `bands` in that search; 0 after the last. Begin with 0. */
int64_t next_bands(int64_t bands, int64_t steps, int64_t epochs);

/* The others: with Poisson sampling, and without sampling in `epochs` passes in a fixed order. */
typedef enum rival {
    RIVAL_SGD,         /* independent noise, Poisson sampling */
    RIVAL_TREE,        /* binary tree, estimator from below */
    RIVAL_STAMPING,    /* the optimum of one epoch, in every epoch anew */
    RIVAL_SQUARE_ROOT, /* C = A^(1/2) */
    RIVAL_BLT,         /* 5 buffers */
    RIVAL_BLT_2,       /* 2 buffers */
    RIVAL_UNAMPLIFIED  /* the best Toeplitz C of steps/epochs bands */
} rival;
dpmf_status rival_noise(book *b, rival who, double epsilon, int64_t steps, int64_t epochs, double *noise);

/* Full batches in all steps, with independent noise, in the average gradient: x epochs for that of `epochs` passes. */
dpmf_status full_batch_noise(book *b, double epsilon, int64_t steps, double *noise);

#endif
