/* SPDX-License-Identifier: Apache-2.0 */
/* The cells as JSON, as tables for people, and as the Markdown of docs/reproduction.md. */
#include "reproduce.h"

#include <math.h>
#include <stdio.h>

static const char *row_label(const published_table *table, int row, char out[24]) {
    if (table->label[row] != NULL) return table->label[row];
    snprintf(out, 24, "%lld", (long long)table->row[row]);
    return out;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void add_cell_json(text_buffer *t, const cell *c) {
    char row[24];
    json_open(t, NULL, '{');
    json_text(t, "table", c->table->name);
    json_text(t, "row", row_label(c->table, c->row, row));
    json_text(t, "column", c->column->name);
    json_double(t, "ours", c->ours);
    json_double(t, "paper", c->paper);
    json_double(t, "difference", cell_difference(c));
    if (c->verdict == UNCLAIMED)
        json_null(t, "ok");
    else
        json_bool(t, "ok", c->verdict == AGREES);
    if (c->column->note == NULL)
        json_null(t, "note");
    else
        json_text(t, "note", c->column->note);
    if (isnan(c->paper))
        json_null(t, "tolerance");
    else
        json_double(t, "tolerance", cell_tolerance(c));
    json_text(t, "kind", dpmf_kind_name(c->kind));
    json_close(t, '}');
}

void add_cells_json(text_buffer *t, const cell *cells, int64_t count, double perturb) {
    json_begin(t);
    json_open(t, "cells", '[');
    for (int64_t i = 0; i < count; ++i)
        add_cell_json(t, &cells[i]);
    json_close(t, ']');
    json_bool(t, "ok", all_agree(cells, count));
    json_double(t, "perturb", perturb);
    json_end(t);
}

/* ---- what both other forms say --------------------------------------------------------------------------------- */

static const char *row_heading(const published_table *table) {
    static const char *const headings[] = {[ROWS_STEPS] = "n",
                                           [ROWS_STAMPS] = "stamps",
                                           [ROWS_CONSTRAINT] = "constraint",
                                           [ROWS_SETTLED] = "m",
                                           [ROWS_MATRIX] = "t"};
    return headings[table->row_kind];
}

/* Our figure with seven digits, zeros at the end included. */
static const char *seven_digits(double value, char out[32]) {
    int before_point = value >= 10.0 ? (int)floor(log10(value)) + 1 : 1;
    snprintf(out, 32, "%.*f", before_point < 7 ? 7 - before_point : 0, value);
    return out;
}

static void add_confession(text_buffer *t, double perturb) {
    if (perturb == 0.0) return;
    text_add(t, "Self-test: one row of every strategy is multiplied by %.9g where its sensitivity is computed.\n\n",
             1.0 + perturb);
}

static void add_summary(text_buffer *t, const cell *cells, int64_t count) {
    int64_t of_verdict[3] = {0};
    for (int64_t i = 0; i < count; ++i)
        ++of_verdict[cells[i].verdict];
    text_add(t, "%lld of %lld compared figures agree; %lld more are shown beside the paper's.\n",
             (long long)of_verdict[AGREES], (long long)(of_verdict[AGREES] + of_verdict[OFF]),
             (long long)of_verdict[UNCLAIMED]);
}

static int64_t table_cells(const published_table *table) {
    return count_cells(table);
}

static const cell *find_cell(const cell *cells, int column, int row) {
    const published_table *table = cells->table;
    if (!is_cell(&table->column[column], row)) return NULL;
    while (cells->column != &table->column[column] || cells->row != row)
        ++cells;
    return cells;
}

/* ---- for people ------------------------------------------------------------------------------------------------ */

static void add_cell_text(text_buffer *t, const cell *c) {
    static const char *const marks[] = {[UNCLAIMED] = "", [AGREES] = "  agrees", [OFF] = "  OFF"};
    char ours[32], row[24];
    text_add(t, "%10s%14s%12s", row_label(c->table, c->row, row), seven_digits(c->ours, ours),
             c->column->printed[c->row]);
    if (!isnan(c->paper)) text_add(t, "%+14.1e%s", cell_difference(c), marks[c->verdict]);
    text_add(t, "\n");
}

static void add_table_text(text_buffer *t, const cell *cells) {
    const published_table *table = cells->table;
    text_add(t, "%s\n\n%10s%14s%12s%14s\n", table->title, row_heading(table), "ours", "paper", "difference");
    for (int64_t i = 0; i < table_cells(table); ++i) {
        const published_column *column = cells[i].column;
        bool first = i == 0 || cells[i - 1].column != column;
        if (first) text_add(t, "  %s\n", column->name);
        if (first && column->note != NULL)
            text_add(t, "    %s%s\n", column->unclaimed ? "not compared: " : "", column->note);
        add_cell_text(t, &cells[i]);
    }
    text_add(t, "\n");
}

void add_cells_text(text_buffer *t, const cell *cells, int64_t count, double perturb) {
    add_confession(t, perturb);
    for (int64_t i = 0; i < count; i += table_cells(cells[i].table))
        add_table_text(t, cells + i);
    add_summary(t, cells, count);
}

/* ---- Markdown -------------------------------------------------------------------------------------------------- */

static void add_row_markdown(text_buffer *t, const cell *cells, int row) {
    const published_table *table = cells->table;
    char label[24];
    text_add(t, "| %s |", row_label(table, row, label));
    for (int column = 0; column < table->columns; ++column) {
        const cell *c = find_cell(cells, column, row);
        char ours[32];
        if (c == NULL) {
            text_add(t, " |");
            continue;
        }
        seven_digits(c->ours, ours);
        text_add(t, c->verdict == OFF ? " **%s (%s)**%s |" : " %s (%s)%s |", ours, c->column->printed[row],
                 c->verdict == UNCLAIMED && !c->column->unclaimed ? " \\*" : "");
    }
    text_add(t, "\n");
}

static void add_table_markdown(text_buffer *t, const cell *cells) {
    const published_table *table = cells->table;
    text_add(t, "\n## %s\n\n`dpmf reproduce %s`\n\n| %s |", table->title, table->name, row_heading(table));
    for (int i = 0; i < table->columns; ++i)
        text_add(t, " %s%s |", table->column[i].name, table->column[i].unclaimed ? " \\*" : "");
    text_add(t, "\n|---|");
    for (int i = 0; i < table->columns; ++i)
        text_add(t, "---|");
    text_add(t, "\n");
    for (int row = 0; row < table->rows; ++row)
        add_row_markdown(t, cells, row);
    const char *before = "\n";
    for (int i = 0; i < table->columns; ++i) {
        if (table->column[i].note == NULL) continue;
        text_add(t, "%s- %s: %s\n", before, table->column[i].name, table->column[i].note);
        before = "";
    }
}

void add_cells_markdown(text_buffer *t, const cell *cells, int64_t count, double perturb) {
    text_add(
        t, "# Published tables, reproduced\n\n"
           "Made by `dpmf reproduce all --markdown`. Each cell is our figure and, in brackets, the paper's as it "
           "is printed. All are\nfor prefix sums unless they say so, and every loss includes the sensitivity. "
           "**Bold**: not "
           "within half a unit of the paper's last digit.\n\\*: shown beside the paper's, not compared; the note says "
           "why. `dpmf reproduce all --perturb 0.01` shows the\ncomparison fail.\n\n");
    add_confession(t, perturb);
    add_summary(t, cells, count);
    for (int64_t i = 0; i < count; i += table_cells(cells[i].table))
        add_table_markdown(t, cells + i);
}
