/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our figure of every cell, and whether it is the paper's: within half a unit of the last digit that the paper keeps.
 *
 * The self-test (--perturb X). The comparison must be able to fail, so a reader may ask for a mistake: one row of C is
 * multiplied by 1 + X where the sensitivity is computed, and nowhere else. The row is the largest entry of C u, u being
 * 1 in the steps of one pattern: the column that decides the sensitivity under single participation (of a Toeplitz C
 * this is its coefficient c_0), the steps 0, b, 2b, ... under a cyclic one. With e = that entry,
 *
 *     sensitivity  x  sqrt( 1 + ((1+X)^2 - 1) e^2 / |C u|^2 ).
 *
 * The decoder keeps the true C. A mistake in both would hardly show: the square root is the Toeplitz matrix of least
 * max loss (Pillutla et al. 2025, Theorem 2.5), so a coefficient that is wrong by X moves its loss by the order of X^2.
 */
#include "reproduce.h"

#include "numbers.h"
#include "progress.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

int64_t count_cells(const published_table *table) {
    int64_t count = 0;
    for (int i = 0; i < published_table_count; ++i)
        if (table == NULL || table == &published_tables[i])
            count += published_tables[i].rows * published_tables[i].columns;
    return count;
}

double cell_difference(const cell *c) {
    return c->ours / c->paper - 1.0;
}

bool all_agree(const cell *cells, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        if (cells[i].verdict == OFF) return false;
    return true;
}

/* ---- progress over all cells ----------------------------------------------------------------------------------- */

typedef struct overall {
    dpmf_run shown;
    const char *title;
    int64_t done, total;
} overall;

static int report_part(void *context, const char *what, double done) {
    const overall *o = context;
    (void)what;
    double part = done > 0.0 ? done : 0.0; /* negative: unknown */
    return o->shown.progress(o->shown.context, o->title, ((double)o->done + part) / (double)o->total);
}

/* ---- one cell -------------------------------------------------------------------------------------------------- */

/* y = C u; `u` has room for a number of every step, `y` for one of every row of C. */
static dpmf_status apply_to_pattern(const dpmf_strategy *strategy, const dpmf_participation *participation, double *u,
                                    double *y) {
    int64_t steps = dpmf_strategy_steps(strategy);
    if (dpmf_participation_get_kind(participation) == DPMF_PARTICIPATION_SINGLE) {
        dpmf_status status = dpmf_strategy_column_norms(strategy, u);
        if (status != DPMF_OK) return status;
        int64_t widest = 0;
        for (int64_t t = 1; t < steps; ++t)
            if (u[t] > u[widest]) widest = t;
        return dpmf_strategy_column(strategy, widest, y);
    }
    int64_t separation = dpmf_participation_separation(participation);
    for (int64_t t = 0; t < steps; ++t)
        u[t] = t % separation == 0 ? 1.0 : 0.0;
    return dpmf_strategy_apply(strategy, u, y);
}

/* What the mistake does to the sensitivity. */
static dpmf_status perturbed_factor(const dpmf_strategy *strategy, const dpmf_participation *participation, double X,
                                    double *factor) {
    int64_t rows = dpmf_strategy_rows(strategy);
    double *u = allocate(dpmf_strategy_steps(strategy), sizeof *u);
    double *y = allocate(rows, sizeof *y);
    dpmf_status status = DPMF_ERROR_MEMORY;
    if (u != NULL && y != NULL) status = apply_to_pattern(strategy, participation, u, y);
    if (status == DPMF_OK) {
        double sum = 0.0, largest = 0.0;
        for (int64_t i = 0; i < rows; ++i) {
            sum += y[i] * y[i];
            largest = fmax(largest, y[i] * y[i]);
        }
        *factor = sqrt(1.0 + X * (2.0 + X) * largest / sum);
    }
    free(u);
    free(y);
    return status;
}

static double pick(const dpmf_evaluation *found, quantity wanted) {
    switch (wanted) {
    case RMS_LOSS:
        return found->rms_loss;
    case MAX_LOSS:
        return found->max_loss;
    case TOTAL_SQUARED_LOSS:
        return found->total_squared_loss;
    case ROOT_TOTAL_SQUARED_LOSS:
        break;
    }
    return sqrt(found->total_squared_loss);
}

static dpmf_status compute_ours(cell *c, double perturb, const dpmf_run *run) {
    const published_table *table = c->table;
    bool stamped = table->steps > 0;
    int64_t steps = stamped ? table->steps : table->row[c->row];
    dpmf_workload *workload = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_evaluation found;
    double factor = 1.0;

    dpmf_strategy_options made = dpmf_strategy_options_defaults();
    made.stamps = stamped ? table->row[c->row] : 1;
    made.column_normalize = c->column->column_normalize;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    how.lower_bound = DPMF_LOWER_BOUND_NONE; /* not in the tables */
    how.sensitivity = c->column->sensitivity;
    how.lower_bound = DPMF_LOWER_BOUND_NONE;
    how.run = *run;

    dpmf_status status = dpmf_workload_create(steps, NULL, &workload);
    if (status == DPMF_OK) status = dpmf_participation_parse(table->participation, steps, &participation);
    if (status == DPMF_OK) status = dpmf_strategy_create(c->column->family, workload, &made, &strategy);
    if (status == DPMF_OK) status = dpmf_evaluate(workload, participation, strategy, &how, &found, NULL);
    if (status == DPMF_OK && perturb != 0.0) status = perturbed_factor(strategy, participation, perturb, &factor);
    if (status == DPMF_OK) {
        found.rms_loss *= factor;
        found.max_loss *= factor;
        found.total_squared_loss *= factor * factor;
        c->ours = pick(&found, table->quantity);
        c->kind = found.sensitivity.kind;
    }
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return status;
}

/* Printed decimals are not doubles: a value in the middle of two may miss by a rounding. */
static verdict judge(const cell *c) {
    if (c->column->unclaimed) return UNCLAIMED;
    assert(!isnan(c->paper));
    return fabs(c->ours - c->paper) <= c->table->unit * (0.5 + 1e-9) ? AGREES : OFF;
}

static int compute_cell(cell *c, double perturb, const dpmf_run *run) {
    const char *printed = c->column->printed[c->row];
    assert(printed != NULL);
    if (!read_number(printed, &c->paper)) c->paper = NAN;
    dpmf_status status = compute_ours(c, perturb, run);
    if (status == DPMF_ERROR_MEMORY) return fail_memory();
    if (status != DPMF_OK) return fail_status(status, c->table->name);
    c->verdict = judge(c);
    return 0;
}

int compute_cells(const published_table *wanted, double perturb, int threads, cell *cells) {
    overall all = {.shown = run_with(threads), .total = count_cells(wanted)};
    dpmf_run run = {.threads = threads, .progress = report_part, .context = &all};
    for (int i = 0; i < published_table_count; ++i) {
        const published_table *table = &published_tables[i];
        if (wanted != NULL && wanted != table) continue;
        all.title = table->title;
        for (int column = 0; column < table->columns; ++column)
            for (int row = 0; row < table->rows; ++row) {
                cell *c = &cells[all.done];
                *c = (cell){.table = table, .column = &table->column[column], .row = row};
                int code = compute_cell(c, perturb, &run);
                if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
                if (code != 0) return code;
                ++all.done;
            }
    }
    return 0;
}
