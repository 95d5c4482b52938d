/* SPDX-License-Identifier: Apache-2.0 */
/*
 * McKenna 2024, Figure 10 (Appendix H): strategies made for a separation of 400, in runs where it is less; and the
 * memory of noise streams (Section 3.3).
 */
#include "reproduce/amplified.h"

#include <math.h>
#include <stdlib.h>

/* ---- Figure 10 ------------------------------------------------------------------------------------------------- */

enum { STEPS_10 = 2000, COUNT_10 = 5, SEPARATION_10 = 400, LEAST_10 = 200 };
typedef enum maker { MADE_BLT, MADE_BANDED, MADE_TAPERED } maker;

/* All three for 5 participations at least 400 steps apart; the BLT with 5 buffers. */
static dpmf_status make_strategy(book *b, maker who, const dpmf_workload *workload, dpmf_strategy **out) {
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    dpmf_participation *made_for = NULL;
    how.run = *book_run(b);
    if (who == MADE_BLT)
        how.buffers = 5;
    else
        how.bands = SEPARATION_10;
    if (who == MADE_TAPERED) how.taper = LEAST_10;
    dpmf_status status =
        dpmf_participation_create(DPMF_PARTICIPATION_MIN_SEPARATION, STEPS_10, COUNT_10, SEPARATION_10, &made_for);
    if (status == DPMF_OK)
        status = dpmf_optimize(who == MADE_BLT ? DPMF_FAMILY_BLT : DPMF_FAMILY_BANDED_TOEPLITZ, workload, made_for,
                               &how, out, &found);
    dpmf_participation_free(made_for);
    return status;
}

static dpmf_status loss_at(book *b, maker who, int64_t separation, double *loss, dpmf_kind *kind) {
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_evaluation found;
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_participation *real = NULL;
    how.run = *book_run(b);
    how.lower_bound = DPMF_LOWER_BOUND_NONE;
    dpmf_status status = dpmf_workload_create(STEPS_10, NULL, &workload);
    if (status == DPMF_OK) status = make_strategy(b, who, workload, &strategy);
    if (status == DPMF_OK)
        status = dpmf_participation_create(DPMF_PARTICIPATION_MIN_SEPARATION, STEPS_10, COUNT_10, separation, &real);
    if (status == DPMF_OK) status = dpmf_evaluate(workload, real, strategy, &how, &found, NULL);
    if (status == DPMF_OK) {
        *loss = found.rms_loss;
        *kind = found.sensitivity.kind;
    }
    dpmf_participation_free(real);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return status;
}

static dpmf_status value_10b(book *b, const published_table *table, double parameter, int row, double *ours,
                             dpmf_kind *kind) {
    return loss_at(b, (maker)parameter, table->row[row], ours, kind);
}

/* Coefficient i of C over the norm of the first column. */
static dpmf_status coefficient(book *b, maker who, int64_t i, double *out) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    double *column = allocate(STEPS_10, sizeof *column), squares = 0.0;
    dpmf_status status = column == NULL ? DPMF_ERROR_MEMORY : dpmf_workload_create(STEPS_10, NULL, &workload);
    if (status == DPMF_OK) status = make_strategy(b, who, workload, &strategy);
    if (status == DPMF_OK) status = dpmf_strategy_column(strategy, 0, column);
    for (int64_t t = 0; status == DPMF_OK && t < STEPS_10; ++t)
        squares += column[t] * column[t];
    if (status == DPMF_OK) *out = column[i] / sqrt(squares);
    free(column);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return status;
}

static dpmf_status value_10a(book *b, const published_table *table, double parameter, int row, double *ours,
                             dpmf_kind *kind) {
    *kind = DPMF_EXACT;
    return coefficient(b, (maker)parameter, table->row[row], ours);
}

#define ROWS_10A                                                                                                       \
    { 0, 1, 10, 50, 100, 200, 300, 399 }
#define ROWS_10B                                                                                                       \
    { 100, 150, 200, 250, 300, 350, 375, 380, 390, 400 }
static const int64_t separations[] = ROWS_10B;

#define MAKER_COLUMNS(function, ...)                                                                                   \
    {                                                                                                                  \
        {.name = "BLT", .value = function, .parameter = MADE_BLT, __VA_ARGS__},                                        \
            {.name = "banded Toeplitz", .value = function, .parameter = MADE_BANDED, __VA_ARGS__}, {                   \
            .name = "banded Toeplitz, tapered", .value = function, .parameter = MADE_TAPERED, __VA_ARGS__              \
        }                                                                                                              \
    }

static const published_column figure_10a_columns[] = MAKER_COLUMNS(value_10a, SHOWN_ONLY(NONE_8));
static const published_column figure_10b_columns[] = MAKER_COLUMNS(value_10b, SHOWN_ONLY(NONE_8, "", ""));

/* The last coefficient of the BLT within the bands over that of the banded strategy. */
static dpmf_status claim_decay(book *b, const published_claim *claim, double *ours) {
    double blt, banded;
    dpmf_status status = coefficient(b, MADE_BLT, claim->steps, &blt);
    if (status == DPMF_OK) status = coefficient(b, MADE_BANDED, claim->steps, &banded);
    if (status == DPMF_OK) *ours = blt / banded;
    return status;
}

/* Loss of `which` (two of them: 10 x numerator + denominator) at separation `bands`. */
#define OVER(numerator, denominator) .which = 10 * (numerator) + (denominator)
static dpmf_status ratio_at(book *b, const published_claim *claim, int64_t separation, double *ratio) {
    double above, below;
    dpmf_kind kind;
    dpmf_status status = loss_at(b, (maker)(claim->which / 10), separation, &above, &kind);
    if (status == DPMF_OK) status = loss_at(b, (maker)(claim->which % 10), separation, &below, &kind);
    if (status == DPMF_OK) *ratio = above / below;
    return status;
}

static dpmf_status claim_at_separation(book *b, const published_claim *claim, double *ours) {
    return ratio_at(b, claim, claim->bands, ours);
}

/* The largest over all separations of the figure from `bands` on. */
static dpmf_status claim_at_any_separation(book *b, const published_claim *claim, double *ours) {
    double most = 0.0, ratio;
    for (int i = 0; i < COUNT_OF(separations); ++i) {
        if (separations[i] < claim->bands) continue;
        dpmf_status status = ratio_at(b, claim, separations[i], &ratio);
        if (status != DPMF_OK) return status;
        most = fmax(most, ratio);
    }
    *ours = most;
    return DPMF_OK;
}

static const published_claim figure_10a_claims[] = {
    {
        .label = "BLT / banded Toeplitz, coefficient 399",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_decay,
        .steps = 399,
        .note = "the coefficients of the BLT decay faster",
    },
};

static const published_claim figure_10b_claims[] = {
    {
        .label = "tapered / BLT, separation 200 to 400: the largest",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_at_any_separation,
        .bands = 200,
        OVER(MADE_TAPERED, MADE_BLT),
        .note = "less error than the BLT at every separation from 200 to 400",
    },
    {
        .label = "tapered / banded Toeplitz, separation 400",
        .printed = "1",
        .relation = AT_LEAST,
        .value = claim_at_separation,
        .bands = 400,
        OVER(MADE_TAPERED, MADE_BANDED),
        .note = "gives something up very close to 400",
    },
    {
        .label = "tapered / banded Toeplitz, separation 380",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_at_separation,
        .bands = 380,
        OVER(MADE_TAPERED, MADE_BANDED),
        .note = "and only there",
    },
    {
        .label = "banded Toeplitz / BLT, separation 400",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_at_separation,
        .bands = 400,
        OVER(MADE_BANDED, MADE_BLT),
        .note = "the best mechanism when the separation is as estimated",
    },
    {
        .label = "BLT / banded Toeplitz, separation 150",
        .printed = "1",
        .relation = AT_MOST,
        .value = claim_at_separation,
        .bands = 150,
        OVER(MADE_BLT, MADE_BANDED),
        .note = "the BLT can be better when the separation is less than half of the estimate; it is from 350 down",
    },
    {
        .label = "banded Toeplitz / tapered, separation 200 to 400: the largest",
        .value = claim_at_any_separation,
        .bands = 200,
        OVER(MADE_BANDED, MADE_TAPERED),
        .note = "differences are small (the text gives no number)",
    },
};

const published_table mckenna_figure_10a = {
    .name = "mckenna-2024-figure-10a",
    .title = "McKenna 2024, Figure 10a: Toeplitz coefficients over their norm, made for 2000 steps, 5 times, 400 apart",
    .row_kind = ROWS_COEFFICIENT,
    .steps = STEPS_10,
    .rows = 8,
    .row = ROWS_10A,
    .columns = COUNT_OF(figure_10a_columns),
    .column = figure_10a_columns,
    .claims = COUNT_OF(figure_10a_claims),
    .claim = figure_10a_claims,
};

const published_table mckenna_figure_10b = {
    .name = "mckenna-2024-figure-10b",
    .title = "McKenna 2024, Figure 10b: RMS loss of strategies made for separation 400, by the real least separation",
    .row_kind = ROWS_SEPARATION,
    .steps = STEPS_10,
    .rows = COUNT_OF(separations),
    .row = ROWS_10B,
    .columns = COUNT_OF(figure_10b_columns),
    .column = figure_10b_columns,
    .claims = COUNT_OF(figure_10b_claims),
    .claim = figure_10b_claims,
};

/* ---- memory ---------------------------------------------------------------------------------------------------- */

typedef struct memory_case {
    int64_t bands, parameters, machines;
} memory_case;

static const memory_case memory_cases[] = {
    {256, 1000000000, 1}, {256, 1000000000, 1024}, {64, 4000000, 1},
    {128, 128000000, 64}, {4096, 4000000, 64},     {128, 100000000, 32},
};

/* Buffers of the largest shard, single precision, in GB. The run may have any number of steps. */
static dpmf_status value_memory(book *b, const published_table *table, double parameter, int row, double *ours,
                                dpmf_kind *kind) {
    const memory_case *at = &memory_cases[row];
    dpmf_strategy_options made = dpmf_strategy_options_defaults();
    dpmf_noise_options how = dpmf_noise_options_defaults();
    dpmf_mechanism_options saved = dpmf_mechanism_options_defaults();
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    uint64_t bytes, buffers;
    (void)table;
    (void)parameter;
    made.bands = at->bands;
    how.count = (at->parameters + at->machines - 1) / at->machines;
    saved.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    saved.evaluate.run = *book_run(b);
    dpmf_status status = dpmf_workload_create(2 * at->bands, NULL, &workload);
    if (status == DPMF_OK) status = dpmf_strategy_create(DPMF_FAMILY_BSR, workload, &made, &strategy);
    if (status == DPMF_OK) status = dpmf_mechanism_create(workload, NULL, strategy, &saved, &mechanism);
    if (status == DPMF_OK) status = dpmf_noise_memory(mechanism, at->parameters, &how, &bytes, &buffers);
    if (status == DPMF_OK) *ours = (double)buffers / 1e9;
    *kind = DPMF_EXACT;
    dpmf_mechanism_free(mechanism);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return status;
}

static const published_column memory_columns[] = {
    {
        .name = "GB a machine",
        .value = value_memory,
        .relative = 0.05,
        .note = "Section 3.3, Examples 3.1 to 3.3 and Section 4.2: round figures, within 5 %; a stream of B bands "
                "keeps B - 1 rows",
        .printed = {"1000", "1", "1", "1", "1", "1.6"},
    },
};

const published_table mckenna_memory = {
    .name = "mckenna-2024-memory",
    .title = "McKenna 2024, Sections 3.3 and 4.2: memory of noise streams, single precision",
    .unit = 0.01,
    .row_kind = ROWS_MACHINES,
    .rows = COUNT_OF(memory_cases),
    .label = {"256 bands, 1e9 parameters, 1 machine", "256 bands, 1e9 parameters, 1024 machines",
              "64 bands, 4e6 parameters, 1 machine", "128 bands, 128e6 parameters, 64 machines",
              "4096 bands, 4e6 parameters, 64 machines", "128 bands, 1e8 parameters, 32 machines"},
    .columns = COUNT_OF(memory_columns),
    .column = memory_columns,
};
