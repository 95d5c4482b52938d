/* SPDX-License-Identifier: Apache-2.0 */
/* What the claims about the noise of training runs share. */
#ifndef DPMF_CLI_REPRODUCE_AMPLIFIED_H
#define DPMF_CLI_REPRODUCE_AMPLIFIED_H

#include "reproduce/book.h"
#include "reproduce/reproduce.h"

#define ONLY_OURS "the paper has a figure without numbers; these are ours"
#define NONE_4 "", "", "", ""
#define NONE_8 NONE_4, NONE_4
#define SHOWN_ONLY(...) .unclaimed = true, .note = ONLY_OURS, .printed = {__VA_ARGS__}

#define AT_16384(e, k) .epsilon = (e), .steps = 16384, .epochs = (k)

/* Noise of rival `which` over that of the best amplified mechanism. */
dpmf_status claim_rival(book *b, const published_claim *claim, double *ours);

/* Noise of the average gradient with `bands` bands (0: the best, -1: steps/epochs) over that of full batches. */
dpmf_status claim_over_full(book *b, const published_claim *claim, double *ours);
dpmf_status claim_best_bands(book *b, const published_claim *claim, double *ours);

/* Without amplification (steps/epochs bands) over DP-SGD. */
dpmf_status claim_unamplified_over_sgd(book *b, const published_claim *claim, double *ours);

/* The largest quotient of two neighbours among 1, 2, 4 ... 512 epochs: of the best noise, or (`which` 1) its bands. */
dpmf_status claim_falls_with_epochs(book *b, const published_claim *claim, double *ours);

/* The number that a row's label is. */
double label_number(const published_table *table, int row);

#endif
