/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our figure of every cell, and whether it is the paper's: within half a unit of the last digit that the paper keeps,
 * or on the side of it that the paper claims ("at most", "at least").
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
 *
 * Figures that have no one strategy behind them (noise multipliers, ratios, claims of the text) are multiplied by 1 + X
 * as they are, and divided by it where the paper claims "at least".
 */
#include "reproduce/reproduce.h"

#include "options/numbers.h"
#include "progress.h"
#include "reproduce/book.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_table(const published_table *t) {
    int64_t count = t->claims;
    for (int at = 0; at < t->rows * t->columns; ++at)
        count += is_cell(&t->column[at / t->rows], at % t->rows);
    return count;
}

int64_t count_cells(const published_table *table) {
    if (table != NULL) return count_table(table);
    int64_t count = published_omission_count;
    for (int i = 0; i < published_table_count; ++i)
        count += count_table(published_tables[i]);
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
    if (dpmf_participation_is_single(participation)) {
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
    default:
        return sqrt(found->total_squared_loss);
    }
}

/* What one cell is about. */
typedef struct setting {
    const published_table *table;
    const published_column *column;
    int row;
    int64_t steps, stamps;
    double perturb;
    const dpmf_run *run;
    dpmf_workload *workload, *block; /* of all steps, and of those of one stamp */
    dpmf_participation *participation, *block_participation;
} setting;

static void setting_free(setting *s) {
    dpmf_workload_free(s->workload);
    dpmf_workload_free(s->block);
    dpmf_participation_free(s->participation);
    dpmf_participation_free(s->block_participation);
}

/* A stamp of cyclic:K,B is cyclic itself, over its part of the epochs. */
static dpmf_status make_block_participation(setting *s) {
    int64_t steps = s->steps / s->stamps;
    if (s->column->optimize_for_once || s->stamps == 1) {
        const char *text = s->column->optimize_for_once ? "single" : s->table->participation;
        return dpmf_participation_parse(text, steps, &s->block_participation);
    }
    int64_t count = dpmf_participation_count(s->participation), separation = steps / (count / s->stamps);
    if (count == s->stamps) return dpmf_participation_parse("single", steps, &s->block_participation);
    return dpmf_participation_create(dpmf_participation_get_kind(s->participation), steps, count / s->stamps,
                                     separation, &s->block_participation);
}

static dpmf_status setting_open(const cell *c, double perturb, const dpmf_run *run, setting *s) {
    const char *workload = c->column->workload == NULL ? "prefix" : c->column->workload;
    *s = (setting){.table = c->table, .column = c->column, .row = c->row, .perturb = perturb, .run = run};
    s->steps = c->table->row_kind == ROWS_STEPS ? c->table->row[c->row] : c->table->steps;
    s->stamps = c->table->row_kind == ROWS_STAMPS ? c->table->row[c->row] : 1;
    dpmf_status status = dpmf_workload_parse(workload, s->steps, &s->workload);
    if (status == DPMF_OK) status = dpmf_workload_parse(workload, s->steps / s->stamps, &s->block);
    if (status == DPMF_OK) status = dpmf_participation_parse(c->table->participation, s->steps, &s->participation);
    if (status == DPMF_OK) status = make_block_participation(s);
    return status;
}

static dpmf_optimize_options options_of(const setting *s, bool best) {
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    const published_column *column = s->column;
    how.run = *s->run;
    how.loss = s->table->quantity == MAX_LOSS ? DPMF_LOSS_MAX : DPMF_LOSS_RMS;
    if (column->bands != NULL) how.bands = column->bands[s->row];
    if (column->buffers != NULL) how.buffers = (int)column->buffers[s->row];
    if (best) return how;
    how.normalize = column->column_normalize ? DPMF_NORMALIZE_AFTER : DPMF_NORMALIZE_NONE;
    how.sweep = column->sweep;
    if (s->table->row_kind == ROWS_CONSTRAINT) how.constraint = (dpmf_constraint)s->table->row[s->row];
    if (s->table->row_kind == ROWS_SETTLED) how.settled_after = s->table->row[s->row];
    return how;
}

static dpmf_status make_strategy(const setting *s, bool best, dpmf_strategy **out) {
    const published_column *column = s->column;
    if (best || column->optimize) {
        dpmf_optimize_options how = options_of(s, best);
        dpmf_optimization found;
        dpmf_strategy *block = NULL;
        dpmf_status status = dpmf_optimize(best ? column->best : column->family, s->block, s->block_participation, &how,
                                           s->stamps > 1 ? &block : out, &found);
        if (status == DPMF_OK && s->stamps > 1) status = dpmf_strategy_create_stamped(block, s->stamps, out);
        dpmf_strategy_free(block);
        return status;
    }
    dpmf_strategy_options made = dpmf_strategy_options_defaults();
    made.stamps = s->stamps;
    made.column_normalize = column->column_normalize;
    if (column->bands != NULL) made.bands = column->bands[s->row];
    return dpmf_strategy_create(column->family, s->workload, &made, out);
}

/* The dense optimum needs no matrix: the loss that it reaches is known to 1e-6. */
static dpmf_status dense_loss(const setting *s, dpmf_evaluation *found) {
    dpmf_optimize_options how = options_of(s, false);
    dpmf_optimization optimum;
    dpmf_status status = dpmf_optimize(DPMF_FAMILY_DENSE, s->block, s->block_participation, &how, NULL, &optimum);
    double upper = optimum.optimum_upper * (1.0 + s->perturb);
    if (status == DPMF_OK)
        *found = (dpmf_evaluation){.rms_loss = upper,
                                   .max_loss = upper,
                                   .total_squared_loss = upper * upper * (double)s->steps,
                                   .sensitivity = {.kind = DPMF_EXACT}};
    return status;
}

static dpmf_status evaluate_cell(const setting *s, const dpmf_strategy *strategy, bool best, dpmf_evaluation *found) {
    double factor = 1.0;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    how.lower_bound = DPMF_LOWER_BOUND_NONE; /* not in the tables */
    how.sensitivity = s->column->sensitivity;
    how.run = *s->run;
    dpmf_status status = dpmf_evaluate(s->workload, s->participation, strategy, &how, found, NULL);
    if (status == DPMF_OK && s->perturb != 0.0 && !best)
        status = perturbed_factor(strategy, s->participation, s->perturb, &factor);
    found->rms_loss *= factor;
    found->max_loss *= factor;
    found->total_squared_loss *= factor * factor;
    return status;
}

static dpmf_status entry_of(const setting *s, const dpmf_strategy *strategy, double *out) {
    double *column = allocate(s->steps, sizeof *column);
    if (column == NULL) return DPMF_ERROR_MEMORY;
    dpmf_status status = dpmf_strategy_column(strategy, s->table->row[s->row] - s->column->diagonal, column);
    if (status == DPMF_OK) *out = fabs(column[s->table->row[s->row]]) * (1.0 + s->perturb);
    free(column);
    return status;
}

static dpmf_status compute_with(const setting *s, bool best, cell *c, double *value) {
    dpmf_strategy *strategy = NULL;
    dpmf_evaluation found = {0};
    dpmf_status status = DPMF_OK;
    bool bounds = s->column->optimize && strcmp(s->column->family, DPMF_FAMILY_DENSE) == 0 && s->stamps == 1 &&
                  !s->column->optimize_for_once;
    if (bounds) {
        status = dense_loss(s, &found);
    } else {
        status = make_strategy(s, best, &strategy);
        if (status == DPMF_OK && s->table->quantity == MATRIX_ENTRY) {
            status = entry_of(s, strategy, value);
            found.sensitivity.kind = DPMF_EXACT;
        } else if (status == DPMF_OK) {
            status = evaluate_cell(s, strategy, best, &found);
        }
    }
    if (status == DPMF_OK && s->table->quantity != MATRIX_ENTRY) *value = pick(&found, s->table->quantity);
    if (status == DPMF_OK && !best) c->kind = found.sensitivity.kind;
    dpmf_strategy_free(strategy);
    return status;
}

static dpmf_status compute_column(cell *c, double perturb, const dpmf_run *run) {
    setting s;
    double best = 1.0;
    dpmf_status status = setting_open(c, perturb, run, &s);
    if (status == DPMF_OK) status = compute_with(&s, false, c, &c->ours);
    if (status == DPMF_OK && c->column->over_best) status = compute_with(&s, true, c, &best);
    if (status == DPMF_OK) c->ours /= best;
    setting_free(&s);
    return status;
}

static dpmf_status compute_ours(cell *c, double perturb, book *b) {
    if (c->claim == NULL && c->column->value == NULL) return compute_column(c, perturb, book_run(b));
    dpmf_status status = c->claim != NULL
                             ? c->claim->value(b, c->claim, &c->ours)
                             : c->column->value(b, c->table, c->column->parameter, c->row, &c->ours, &c->kind);
    if (status == DPMF_OK) c->ours *= cell_relation(c) == AT_LEAST ? 1.0 / (1.0 + perturb) : 1.0 + perturb;
    return status;
}

/* ---- ours against the paper's ---------------------------------------------------------------------------------- */

bool is_claimed(const cell *c) {
    if (c->claim != NULL) return !c->claim->unclaimed && c->claim->printed != NULL;
    return !c->column->unclaimed && (c->column->unclaimed_rows >> c->row & 1u) == 0;
}

const char *cell_printed(const cell *c) {
    const char *printed = c->claim != NULL ? c->claim->printed : c->column->printed[c->row];
    return printed == NULL ? "" : printed;
}

relation cell_relation(const cell *c) {
    return c->claim != NULL ? c->claim->relation : c->column->relation;
}

/* One in the last place of a figure as it is written: "1.37e6" is 1e4, "6.5e5" as well. */
static double printed_unit(const char *text) {
    const char *point = strchr(text, '.'), *exponent = strchr(text, 'e');
    size_t end = exponent == NULL ? strlen(text) : (size_t)(exponent - text);
    double digits = point == NULL ? 0.0 : (double)(end - (size_t)(point - text) - 1);
    return pow(10.0, (exponent == NULL ? 0.0 : (double)strtol(exponent + 1, NULL, 10)) - digits);
}

double cell_tolerance(const cell *c) {
    double unit = c->claim != NULL ? c->claim->unit : c->column->unit;
    double relative = c->claim != NULL ? c->claim->relative : c->column->relative;
    if (unit <= 0.0 && c->claim == NULL) unit = c->table->unit;
    if (unit <= 0.0) unit = printed_unit(cell_printed(c));
    return fmax(0.5 * unit, relative * fabs(c->paper));
}

/*
 * Printed decimals are not doubles: a value in the middle of two may miss by a rounding. So may a quotient of two
 * equal figures miss 1, which are the ends of two searches.
 */
static verdict judge(const cell *c) {
    if (!is_claimed(c)) return UNCLAIMED;
    assert(!isnan(c->paper));
    double over = c->ours - c->paper, relative = c->claim != NULL ? c->claim->relative : c->column->relative;
    double rounding = 1e-12 * fabs(c->paper);
    bool near = fabs(over) <= cell_tolerance(c) * (1.0 + 2e-9), agrees = near;
    if (c->claim == NULL && c->column->or_less && over < 0.0) agrees = true;
    if (cell_relation(c) == AT_MOST) agrees = over <= rounding && (relative == 0.0 || near);
    if (cell_relation(c) == AT_LEAST) agrees = over >= -rounding && (relative == 0.0 || near);
    return agrees ? AGREES : OFF;
}

static int compute_cell(cell *c, double perturb, book *b) {
    if (!read_number(cell_printed(c), &c->paper)) c->paper = NAN;
    dpmf_status status = compute_ours(c, perturb, b);
    if (status == DPMF_ERROR_MEMORY) return fail_memory();
    if (status != DPMF_OK) return fail_status(status, c->table->name);
    c->verdict = judge(c);
    return interrupted() ? fail(EXIT_CANCELLED, "cancelled") : 0;
}

static int compute_table(const published_table *table, double perturb, book *b, overall *all, cell *cells) {
    int grid = table->rows * table->columns, code = 0;
    all->title = table->title;
    for (int at = 0; code == 0 && at < grid + table->claims; ++at) {
        cell c = {.table = table};
        if (at < grid) {
            c.column = &table->column[at / table->rows];
            c.row = at % table->rows;
            if (!is_cell(c.column, c.row)) continue;
        } else {
            c.claim = &table->claim[at - grid];
            c.kind = DPMF_ESTIMATE; /* made of several figures, some of them bounds */
        }
        code = compute_cell(&c, perturb, b);
        cells[all->done++] = c;
    }
    return code;
}

int compute_cells(const published_table *wanted, double perturb, int threads, cell *cells) {
    overall all = {.shown = run_with(threads), .total = count_cells(wanted)};
    dpmf_run run = {.threads = threads, .progress = report_part, .context = &all};
    book *b = book_open(&run);
    int code = b == NULL ? fail_memory() : 0;
    for (int i = 0; code == 0 && i < published_table_count; ++i)
        if (wanted == NULL || wanted == published_tables[i])
            code = compute_table(published_tables[i], perturb, b, &all, cells);
    for (int i = 0; code == 0 && wanted == NULL && i < published_omission_count; ++i)
        cells[all.done++] = (cell){.omission = &published_omissions[i], .ours = NAN, .paper = NAN};
    book_close(b);
    return code;
}
