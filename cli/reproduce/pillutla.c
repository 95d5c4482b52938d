/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of Pillutla et al. 2025, who round to three decimals and drop zeros at the end ("4.0", "6.89"). */
#include "reproduce/reproduce.h"

#define FOUR ((const int64_t[]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4})

static const published_column table_2_2_columns[] = {
    {
        .name = "Identity",
        .family = DPMF_FAMILY_IDENTITY,
        .printed = {"2.828", "4.0", "5.657", "8.0", "11.314", "16.0", "22.627", "32.0", "45.255", "64.0", "90.51"},
    },
    {
        .name = "Workload",
        .family = DPMF_FAMILY_WORKLOAD,
        .printed = {"2.828", "4.0", "5.657", "8.0", "11.314", "16.0", "22.627", "32.0", "45.255", "64.0", "90.51"},
    },
    {
        .name = "Streaming H2",
        .family = DPMF_FAMILY_TREE_ONLINE,
        .unclaimed = true,
        .note = "the paper prints NaN; ours is the max loss",
        .printed = {"NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN", "NaN"},
    },
    {
        .name = "Full H2",
        .family = DPMF_FAMILY_TREE_FULL,
        .unclaimed = true,
        .note = "misprint: the paper's column is not a max loss; ours is the corrected value",
        .printed = {"2.382", "2.881", "3.381", "3.883", "4.384", "4.886", "5.387", "5.888", "6.389", "6.89", "7.391"},
    },
    {
        .name = "Toeplitz",
        .family = DPMF_FAMILY_TOEPLITZ,
        .printed = {"1.718", "1.944", "2.167", "2.389", "2.61", "2.831", "3.052", "3.273", "3.493", "3.714", "3.935"},
    },
    {
        .name = "Col-Norm. Toep.",
        .family = DPMF_FAMILY_TOEPLITZ,
        .column_normalize = true,
        .printed = {"1.573", "1.783", "1.997", "2.212", "2.428", "2.645", "2.863", "3.081", "3.299", "3.518", "3.737"},
    },
    {
        .name = "BLT",
        .family = DPMF_FAMILY_BLT,
        .optimize = true,
        .buffers = FOUR,
        .or_less = true,
        .note = "ours with 4 buffers; the paper does not give its number, and less is better",
        .printed = {"1.723", "1.944", "2.168", "2.391", "2.61", "2.832", "3.054", "3.273", "3.494", "3.716", "3.939"},
    },
    {
        .name = "Dense",
        .family = DPMF_FAMILY_DENSE,
        .optimize = true,
        .unclaimed_rows = 1u << 4 | 1u << 5 | 1u << 7,
        .note = "128 and 256 are cut off instead of rounded in the paper; that of 1024 is below a proven lower bound",
        .printed = {"1.51", "1.704", "1.905", "2.111", "2.32", "2.532", "2.746", "2.958", "3.177"},
    },
};

static const published_column table_2_3_columns[] = {
    {
        .name = "Identity",
        .family = DPMF_FAMILY_IDENTITY,
        .printed = {"2.121", "2.915", "4.062", "5.701", "8.031", "11.336", "16.016", "22.638", "32.008", "45.26",
                    "64.004"},
    },
    {
        .name = "Workload",
        .family = DPMF_FAMILY_WORKLOAD,
        .printed = {"2.828", "4.0", "5.657", "8.0", "11.314", "16.0", "22.627", "32.0", "45.255", "64.0", "90.51"},
    },
    {
        .name = "Streaming H2",
        .family = DPMF_FAMILY_TREE_ONLINE,
        .printed = {"2.178", "2.663", "3.156", "3.652", "4.151", "4.65", "5.15", "5.65", "6.15", "6.65", "7.15"},
    },
    {
        .name = "Full H2",
        .family = DPMF_FAMILY_TREE_FULL,
        .printed = {"1.656", "1.938", "2.227", "2.518", "2.81", "3.102", "3.394", "3.686", "3.978", "4.269", "4.56"},
    },
    {
        .name = "BLT",
        .family = DPMF_FAMILY_BLT,
        .optimize = true,
        .buffers = FOUR,
        .or_less = true,
        .note = "ours with 4 buffers; the paper does not give its number, and less is better",
        .printed = {"1.544", "1.751", "1.964", "2.18", "2.398", "2.617", "2.837", "3.057", "3.278", "3.499", "3.72"},
    },
    {
        .name = "Toeplitz",
        .family = DPMF_FAMILY_TOEPLITZ,
        .optimize = true,
        .printed = {"1.544", "1.75", "1.963", "2.179", "2.397", "2.616", "2.836", "3.057", "3.277", "3.498", "3.718"},
    },
    {
        .name = "Col-Norm. Toep.",
        .family = DPMF_FAMILY_TOEPLITZ,
        .optimize = true,
        .column_normalize = true,
        .printed = {"1.512", "1.714", "1.922", "2.135", "2.35", "2.567", "2.784", "3.003", "3.221", "3.44", "3.66"},
    },
    {
        .name = "Dense",
        .family = DPMF_FAMILY_DENSE,
        .optimize = true,
        .printed = {"1.494", "1.689", "1.892", "2.1", "2.311", "2.524", "2.739", "2.955", "3.172"},
    },
};

const published_table pillutla_table_2_2 = {
    .name = "pillutla-2025-table-2.2",
    .title = "Pillutla et al. 2025, Table 2.2: max loss, single participation",
    .quantity = MAX_LOSS,
    .unit = 1e-3,
    .participation = "single",
    .rows = 11,
    .row = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192},
    .columns = COUNT_OF(table_2_2_columns),
    .column = table_2_2_columns,
};

const published_table pillutla_table_2_3 = {
    .name = "pillutla-2025-table-2.3",
    .title = "Pillutla et al. 2025, Table 2.3: RMS loss, single participation",
    .quantity = RMS_LOSS,
    .unit = 1e-3,
    .participation = "single",
    .rows = 11,
    .row = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192},
    .columns = COUNT_OF(table_2_3_columns),
    .column = table_2_3_columns,
};
