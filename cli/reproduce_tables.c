/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables, with every figure as the paper prints it. All are about prefix sums.
 *
 * Rounding: Pillutla et al. round to three decimals and drop zeros at the end ("4.0", "6.89"), Denisov et al. to one
 * decimal, Choquette-Choo et al. to two digits of a million; `unit` says so, and half of it is what a claimed figure
 * may be away.
 */
#include "reproduce.h"

#include <string.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- Denisov et al. 2022 --------------------------------------------------------------------------------------- */

static const published_column denisov_table_2[] = {
    {
        .name = "Honaker",
        .family = "tree-online",
        .printed = {"74.4", "116.5", "180.8", "278.3", "425.6"},
    },
};

/* ---- Choquette-Choo et al. 2023 -------------------------------------------------------------------------------- */

#define SPECTRAL "both with the sensitivity bound of Theorem 2.1"
#define EXACT "ours with the exact sensitivity, theirs with the bound of Theorem 2.1"

static const published_column choquette_choo_table_1[] = {
    {
        .name = "(Online) Honaker",
        .family = "tree-online",
        .printed = {"5.8e6", "3.3e6", "2.1e6", "2.0e6", "2.1e6"},
    },
    {
        .name = "Optimal Decoder Honaker",
        .family = "tree-full",
        .printed = {"2.4e6", "1.6e6", "1.2e6", "1.4e6", "1.8e6"},
    },
    {
        .name = "FFT",
        .family = "fft",
        .sensitivity = DPMF_BOUND_SPECTRAL,
        .note = SPECTRAL,
        .printed = {"2.3e6", "1.8e6", "1.6e6", "1.9e6", "2.5e6"},
    },
    {
        .name = "FFT, exact sensitivity",
        .family = "fft",
        .unclaimed = true,
        .note = EXACT,
        .printed = {"2.3e6", "1.8e6", "1.6e6", "1.9e6", "2.5e6"},
    },
    {
        .name = "FFT Optimal Decoder",
        .family = "fft-opt",
        .sensitivity = DPMF_BOUND_SPECTRAL,
        .note = SPECTRAL,
        .printed = {"2.2e6", "1.5e6", "1.1e6", "1.2e6", "1.7e6"},
    },
    {
        .name = "FFT Optimal Decoder, exact sensitivity",
        .family = "fft-opt",
        .unclaimed = true,
        .note = EXACT,
        .printed = {"2.2e6", "1.5e6", "1.1e6", "1.2e6", "1.7e6"},
    },
};

/* ---- Pillutla et al. 2025 -------------------------------------------------------------------------------------- */

static const published_column pillutla_table_2_2[] = {
    {
        .name = "Identity",
        .family = "identity",
        .printed = {"2.828", "4.0", "5.657", "8.0", "11.314", "16.0", "22.627", "32.0", "45.255", "64.0", "90.51"},
    },
    {
        .name = "Workload",
        .family = "workload",
        .printed = {"2.828", "4.0", "5.657", "8.0", "11.314", "16.0", "22.627", "32.0", "45.255", "64.0", "90.51"},
    },
    {
        .name = "Streaming H2",
        .family = "tree-online",
        .unclaimed = true,
        .note = "the paper prints NaN; ours is the max loss",
        .printed = {"NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN"},
    },
    {
        .name = "Full H2",
        .family = "tree-full",
        .unclaimed = true,
        .note = "misprint: the paper's column is not a max loss; ours is the corrected value",
        .printed = {"2.382", "2.881", "3.381", "3.883", "4.384", "4.886", "5.387", "5.888", "6.389", "6.89", "7.391"},
    },
    {
        .name = "Toeplitz",
        .family = "toeplitz",
        .printed = {"1.718", "1.944", "2.167", "2.389", "2.61", "2.831", "3.052", "3.273", "3.493", "3.714", "3.935"},
    },
    {
        .name = "Col-Norm. Toep.",
        .family = "toeplitz",
        .column_normalize = true,
        .printed = {"1.573", "1.783", "1.997", "2.212", "2.428", "2.645", "2.863", "3.081", "3.299", "3.518", "3.737"},
    },
};

#define SQUARE_ROOT "theirs comes from the Toeplitz matrix of least RMS loss, ours from the square root"

static const published_column pillutla_table_2_3[] = {
    {
        .name = "Identity",
        .family = "identity",
        .printed = {"2.121", "2.915", "4.062", "5.701", "8.031", "11.336", "16.016", "22.638", "32.008", "45.26",
                    "64.004"},
    },
    {
        .name = "Workload",
        .family = "workload",
        .printed = {"2.828", "4.0", "5.657", "8.0", "11.314", "16.0", "22.627", "32.0", "45.255", "64.0", "90.51"},
    },
    {
        .name = "Streaming H2",
        .family = "tree-online",
        .printed = {"2.178", "2.663", "3.156", "3.652", "4.151", "4.65", "5.15", "5.65", "6.15", "6.65", "7.15"},
    },
    {
        .name = "Full H2",
        .family = "tree-full",
        .printed = {"1.656", "1.938", "2.227", "2.518", "2.81", "3.102", "3.394", "3.686", "3.978", "4.269", "4.56"},
    },
    {
        .name = "Toeplitz (square root)",
        .family = "toeplitz",
        .unclaimed = true,
        .note = SQUARE_ROOT,
        .printed = {"1.544", "1.75", "1.963", "2.179", "2.397", "2.616", "2.836", "3.057", "3.277", "3.498", "3.718"},
    },
    {
        .name = "Col-Norm. Toep. (square root)",
        .family = "toeplitz",
        .column_normalize = true,
        .unclaimed = true,
        .note = SQUARE_ROOT,
        .printed = {"1.512", "1.714", "1.922", "2.135", "2.35", "2.567", "2.784", "3.003", "3.221", "3.44", "3.66"},
    },
};

/* ---- the list -------------------------------------------------------------------------------------------------- */

const published_table published_tables[] = {
    {
        .name = "denisov-2022-table-2",
        .title = "Denisov et al. 2022, Table 2: square root of the total squared loss, single participation",
        .quantity = ROOT_TOTAL_SQUARED_LOSS,
        .unit = 0.1,
        .participation = "single",
        .rows = 5,
        .row = {256, 512, 1024, 2048, 4096},
        .columns = COUNT_OF(denisov_table_2),
        .column = denisov_table_2,
    },
    {
        .name = "choquette-choo-2023-table-1",
        .title = "Choquette-Choo et al. 2023, Table 1: total squared loss, 20 epochs of 100 steps, in stamps",
        .quantity = TOTAL_SQUARED_LOSS,
        .unit = 1e5,
        .participation = "cyclic:20,100",
        .steps = 2000,
        .rows = 5,
        .row = {1, 2, 5, 10, 20},
        .columns = COUNT_OF(choquette_choo_table_1),
        .column = choquette_choo_table_1,
    },
    {
        .name = "pillutla-2025-table-2.2",
        .title = "Pillutla et al. 2025, Table 2.2: max loss, single participation",
        .quantity = MAX_LOSS,
        .unit = 1e-3,
        .participation = "single",
        .rows = 11,
        .row = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192},
        .columns = COUNT_OF(pillutla_table_2_2),
        .column = pillutla_table_2_2,
    },
    {
        .name = "pillutla-2025-table-2.3",
        .title = "Pillutla et al. 2025, Table 2.3: RMS loss, single participation",
        .quantity = RMS_LOSS,
        .unit = 1e-3,
        .participation = "single",
        .rows = 11,
        .row = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192},
        .columns = COUNT_OF(pillutla_table_2_3),
        .column = pillutla_table_2_3,
    },
};

const int published_table_count = COUNT_OF(published_tables);

const published_table *find_published_table(const char *name) {
    for (int i = 0; i < published_table_count; ++i)
        if (strcmp(published_tables[i].name, name) == 0) return &published_tables[i];
    return NULL;
}
