/* SPDX-License-Identifier: Apache-2.0 */
/*
 * McKenna 2024, Figures 2a and 8: noise by the number of bands and epochs; delta = 1e-8.
 *
 * They compare runs of different batches, so they are about the average gradient: k epochs of n steps have batches of
 * k/n of the data, and their noise is divided by k, that of full batches by n.
 */
#include "reproduce/amplified.h"

#include <math.h>

enum { STEPS_2A = 16384 };

static dpmf_status over_full(book *b, double epsilon, int64_t steps, int64_t epochs, int64_t bands, double *ratio) {
    double noise, full;
    dpmf_status status = bands == 0 ? best_noise(b, epsilon, steps, epochs, &noise, NULL)
                                    : amplified_noise(b, epsilon, steps, epochs, bands, &noise);
    if (status == DPMF_OK) status = full_batch_noise(b, epsilon, steps, &full);
    if (status == DPMF_OK) *ratio = noise / (double)epochs / full;
    return status;
}

dpmf_status claim_over_full(book *b, const published_claim *claim, double *ours) {
    int64_t bands = claim->bands < 0 ? claim->steps / claim->epochs : claim->bands;
    return over_full(b, claim->epsilon, claim->steps, claim->epochs, bands, ours);
}

dpmf_status claim_best_bands(book *b, const published_claim *claim, double *ours) {
    double noise;
    int64_t bands = 0;
    dpmf_status status = best_noise(b, claim->epsilon, claim->steps, claim->epochs, &noise, &bands);
    *ours = (double)bands;
    return status;
}

static dpmf_status value_over_full(book *b, double epsilon, const published_table *table, double parameter, int row,
                                   double *ours, dpmf_kind *kind) {
    *kind = DPMF_UPPER_BOUND;
    return over_full(b, epsilon, table->steps, (int64_t)parameter, table->row[row], ours);
}

static dpmf_status value_2a(book *b, const published_table *table, double parameter, int row, double *ours,
                            dpmf_kind *kind) {
    return value_over_full(b, 1.0, table, parameter, row, ours, kind);
}

static dpmf_status value_8(book *b, const published_table *table, double parameter, int row, double *ours,
                           dpmf_kind *kind) {
    return value_over_full(b, 8.0, table, parameter, row, ours, kind);
}

/* With k epochs 1 to n/k bands: 15, 14, 13, 12, 11, 10, 8 and 6 of them. */
#define EPOCH_COLUMNS(function)                                                                                        \
    {                                                                                                                  \
        {.name = "1 epoch", .value = function, .parameter = 1, SHOWN_ONLY(NONE_8, NONE_4, "", "", "")},                \
            {.name = "2 epochs", .value = function, .parameter = 2, SHOWN_ONLY(NONE_8, NONE_4, "", "")},               \
            {.name = "4 epochs", .value = function, .parameter = 4, SHOWN_ONLY(NONE_8, NONE_4, "")},                   \
            {.name = "8 epochs", .value = function, .parameter = 8, SHOWN_ONLY(NONE_8, NONE_4)},                       \
            {.name = "16 epochs", .value = function, .parameter = 16, SHOWN_ONLY(NONE_8, "", "", "")},                 \
            {.name = "32 epochs", .value = function, .parameter = 32, SHOWN_ONLY(NONE_8, "", "")},                     \
            {.name = "128 epochs", .value = function, .parameter = 128, SHOWN_ONLY(NONE_8)}, {                         \
            .name = "512 epochs", .value = function, .parameter = 512, SHOWN_ONLY(NONE_4, "", "")                      \
        }                                                                                                              \
    }

#define POWERS_OF_2                                                                                                    \
    { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384 }

static const published_column figure_2a_columns[] = EPOCH_COLUMNS(value_2a);
static const published_column figure_8_columns[] = EPOCH_COLUMNS(value_8);

dpmf_status claim_unamplified_over_sgd(book *b, const published_claim *claim, double *ours) {
    double one, other;
    dpmf_status status =
        amplified_noise(b, claim->epsilon, claim->steps, claim->epochs, claim->steps / claim->epochs, &one);
    if (status == DPMF_OK) status = amplified_noise(b, claim->epsilon, claim->steps, claim->epochs, 1, &other);
    if (status == DPMF_OK) *ours = one / other;
    return status;
}

dpmf_status claim_falls_with_epochs(book *b, const published_claim *claim, double *ours) {
    double most = 0.0, before = INFINITY;
    for (int64_t epochs = 1; epochs <= 512; epochs *= 2) {
        double noise;
        int64_t bands = 0;
        dpmf_status status = best_noise(b, claim->epsilon, claim->steps, epochs, &noise, &bands);
        if (status != DPMF_OK) return status;
        double now = claim->which == 1 ? (double)bands : noise / (double)epochs;
        most = fmax(most, now / before);
        before = now;
    }
    *ours = most;
    return DPMF_OK;
}

static const published_claim figure_2a_claims[] = {
    {
        .label = "amplified / full batch, 2 epochs",
        .printed = "2",
        .relation = AT_MOST,
        .value = claim_over_full,
        AT_16384(1.0, 2),
        .note = "less than 2 with two epochs",
    },
    {
        .label = "amplified / full batch, 8 epochs",
        .printed = "1.18",
        .relation = AT_MOST,
        .value = claim_over_full,
        AT_16384(1.0, 8),
        .note = "less than 18 % worse with eight epochs",
    },
    {
        .label = "DP-SGD / full batch, 32 epochs",
        .value = claim_over_full,
        AT_16384(1.0, 32),
        .bands = 1,
        .note = "nearly the same (the text gives no number)",
    },
    {
        .label = "not amplified / DP-SGD, 512 epochs",
        .printed = "1",
        .relation = AT_LEAST,
        .value = claim_unamplified_over_sgd,
        AT_16384(1.0, 512),
        .note = "worse than DP-SGD with many epochs",
    },
    {
        .label = "not amplified / DP-SGD, 1 epoch",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_unamplified_over_sgd,
        AT_16384(1.0, 1),
        .note = "better with few",
    },
    {
        .label = "amplified: falls with the epochs, largest quotient",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_falls_with_epochs,
        AT_16384(1.0, 0),
        .note = "less noise with more epochs",
    },
};

static const published_claim figure_8_claims[] = {
    {
        .label = "best number of bands, 8 epochs",
        .printed = "128",
        .unclaimed = true,
        .value = claim_best_bands,
        AT_16384(8.0, 8),
        .note = "256 are better: 128 have 6 % more noise",
    },
    {
        .label = "amplified / full batch, 16 epochs",
        .printed = "2",
        .relation = AT_MOST,
        .value = claim_over_full,
        AT_16384(8.0, 16),
        .note = "within a factor of 2 with 16 epochs",
    },
    {
        .label = "amplified / full batch, 8 epochs",
        .printed = "2",
        .relation = AT_LEAST,
        .unclaimed = true,
        .value = claim_over_full,
        AT_16384(8.0, 8),
        .note = "16 epochs are needed in the text; 8 are enough with 256 bands",
    },
    {
        .label = "128 bands / full batch, 8 epochs",
        .printed = "2",
        .relation = AT_LEAST,
        .value = claim_over_full,
        AT_16384(8.0, 8),
        .bands = 128,
        .note = "with the 128 bands of the text, 8 epochs are not",
    },
    {
        .label = "DP-SGD / full batch, 256 epochs",
        .value = claim_over_full,
        AT_16384(8.0, 256),
        .bands = 1,
        .note = "near it (the text gives no number)",
    },
    {
        .label = "amplified: falls with the epochs, largest quotient",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_falls_with_epochs,
        AT_16384(8.0, 0),
        .note = "the caption: the best noise falls with the epochs",
    },
    {
        .label = "best number of bands: falls with the epochs, largest quotient",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_falls_with_epochs,
        AT_16384(8.0, 0),
        .which = 1,
        .note = "the caption: and so does the number of bands",
    },
};

const published_table mckenna_figure_2a = {
    .name = "mckenna-2024-figure-2a",
    .title = "McKenna 2024, Figure 2a: noise over that of full batches, 16384 steps, epsilon = 1, delta = 1e-8",
    .row_kind = ROWS_BANDS,
    .steps = STEPS_2A,
    .rows = 15,
    .row = POWERS_OF_2,
    .columns = COUNT_OF(figure_2a_columns),
    .column = figure_2a_columns,
    .claims = COUNT_OF(figure_2a_claims),
    .claim = figure_2a_claims,
};

const published_table mckenna_figure_8 = {
    .name = "mckenna-2024-figure-8",
    .title = "McKenna 2024, Figure 8: noise over that of full batches, 16384 steps, epsilon = 8, delta = 1e-8",
    .row_kind = ROWS_BANDS,
    .steps = STEPS_2A,
    .rows = 15,
    .row = POWERS_OF_2,
    .columns = COUNT_OF(figure_8_columns),
    .column = figure_8_columns,
    .claims = COUNT_OF(figure_8_claims),
    .claim = figure_8_claims,
};
