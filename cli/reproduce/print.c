/* SPDX-License-Identifier: Apache-2.0 */
/* The cells as JSON and as tables for people. */
#include "reproduce/reproduce.h"

#include <math.h>
#include <stdio.h>

const char *row_label(const published_table *table, int row, char out[24]) {
    if (table->label[row] != NULL) return table->label[row];
    snprintf(out, 24, "%lld", (long long)table->row[row]);
    return out;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static const char *cell_note(const cell *c) {
    if (c->omission != NULL) return c->omission->reason;
    return c->claim != NULL ? c->claim->note : c->column->note;
}

static void text_or_null(text_buffer *t, const char *key, const char *value) {
    if (value == NULL)
        json_null(t, key);
    else
        json_text(t, key, value);
}

static void add_omission_json(text_buffer *t, const cell *c) {
    json_open(t, NULL, '{');
    json_text(t, "table", c->omission->table);
    json_text(t, "row", c->omission->title);
    json_text(t, "column", "not attempted");
    json_null(t, "ours");
    json_null(t, "paper");
    json_null(t, "difference");
    json_null(t, "ok");
    json_text(t, "note", cell_note(c));
    json_null(t, "tolerance");
    json_null(t, "kind");
    json_null(t, "relation");
    json_close(t, '}');
}

static void add_cell_json(text_buffer *t, const cell *c) {
    static const char *const relations[] = {[NEAR] = "near", [AT_MOST] = "at most", [AT_LEAST] = "at least"};
    char row[24];
    json_open(t, NULL, '{');
    json_text(t, "table", c->table->name);
    json_text(t, "row", c->claim != NULL ? c->claim->label : row_label(c->table, c->row, row));
    json_text(t, "column", c->claim != NULL ? "claim" : c->column->name);
    json_double(t, "ours", c->ours);
    json_double(t, "paper", c->paper);
    json_double(t, "difference", cell_difference(c));
    if (c->verdict == UNCLAIMED)
        json_null(t, "ok");
    else
        json_bool(t, "ok", c->verdict == AGREES);
    text_or_null(t, "note", cell_note(c));
    if (isnan(c->paper))
        json_null(t, "tolerance");
    else
        json_double(t, "tolerance", cell_tolerance(c));
    json_text(t, "kind", dpmf_kind_name(c->kind));
    json_text(t, "relation", relations[cell_relation(c)]);
    json_close(t, '}');
}

void add_cells_json(text_buffer *t, const cell *cells, int64_t count, double perturb) {
    json_begin(t);
    json_open(t, "cells", '[');
    for (int64_t i = 0; i < count; ++i)
        if (cells[i].omission != NULL)
            add_omission_json(t, &cells[i]);
        else
            add_cell_json(t, &cells[i]);
    json_close(t, ']');
    json_bool(t, "ok", all_agree(cells, count));
    json_double(t, "perturb", perturb);
    json_end(t);
}

/* ---- what both other forms say --------------------------------------------------------------------------------- */

const char *row_heading(const published_table *table) {
    static const char *const headings[] = {
        [ROWS_STEPS] = "n",       [ROWS_STAMPS] = "stamps", [ROWS_CONSTRAINT] = "constraint",
        [ROWS_SETTLED] = "m",     [ROWS_MATRIX] = "t",      [ROWS_EPSILON] = "epsilon",
        [ROWS_BANDS] = "bands",   [ROWS_EPOCHS] = "epochs", [ROWS_SEPARATION] = "separation",
        [ROWS_COEFFICIENT] = "i", [ROWS_MACHINES] = "run"};
    return headings[table->row_kind];
}

const char *seven_digits(double value, char out[32]) {
    int before_point = value >= 10.0 ? (int)floor(log10(value)) + 1 : 1;
    snprintf(out, 32, "%.*f", before_point < 7 ? 7 - before_point : 0, value);
    return out;
}

const char *relation_words(relation r) {
    static const char *const words[] = {[NEAR] = "", [AT_MOST] = "at most ", [AT_LEAST] = "at least "};
    return words[r];
}

void add_confession(text_buffer *t, double perturb) {
    if (perturb == 0.0) return;
    text_add(t, "Self-test: one row of every strategy is multiplied by %.9g where its sensitivity is computed.\n\n",
             1.0 + perturb);
}

void add_summary(text_buffer *t, const cell *cells, int64_t count) {
    int64_t of_verdict[3] = {0}, omitted = 0;
    for (int64_t i = 0; i < count; ++i)
        if (cells[i].omission != NULL)
            ++omitted;
        else
            ++of_verdict[cells[i].verdict];
    text_add(t, "%lld of %lld compared figures agree; %lld more are shown beside the paper's",
             (long long)of_verdict[AGREES], (long long)(of_verdict[AGREES] + of_verdict[OFF]),
             (long long)of_verdict[UNCLAIMED]);
    if (omitted > 0) text_add(t, "; %lld results are not attempted", (long long)omitted);
    text_add(t, ".\n");
}

/* ---- for people ------------------------------------------------------------------------------------------------ */

static void add_cell_text(text_buffer *t, const cell *c) {
    static const char *const marks[] = {[UNCLAIMED] = "", [AGREES] = "  agrees", [OFF] = "  OFF"};
    char ours[32], row[24];
    text_add(t, "%10s%14s", c->claim != NULL ? "" : row_label(c->table, c->row, row), seven_digits(c->ours, ours));
    if (*cell_printed(c) != '\0') text_add(t, "%12s", cell_printed(c));
    if (!isnan(c->paper)) text_add(t, "%+14.1e%s", cell_difference(c), marks[c->verdict]);
    if (c->verdict != UNCLAIMED && cell_relation(c) == AT_MOST) text_add(t, " (at most)");
    if (c->verdict != UNCLAIMED && cell_relation(c) == AT_LEAST) text_add(t, " (at least)");
    text_add(t, "\n");
}

static void add_table_text(text_buffer *t, const cell *cells) {
    const published_table *table = cells->table;
    text_add(t, "%s\n\n%10s%14s%12s%14s\n", table->title, row_heading(table), "ours", "paper", "difference");
    for (int64_t i = 0; i < count_cells(table); ++i) {
        const cell *c = &cells[i];
        bool first = c->claim != NULL || i == 0 || cells[i - 1].column != c->column;
        if (first)
            text_add(t, "  %s%s\n", c->claim != NULL ? "text: " : "",
                     c->claim != NULL ? c->claim->label : c->column->name);
        if (first && cell_note(c) != NULL)
            text_add(t, "    %s%s\n",
                     (c->claim != NULL ? c->claim->unclaimed : c->column->unclaimed) ? "not compared: " : "",
                     cell_note(c));
        add_cell_text(t, c);
    }
    text_add(t, "\n");
}

void add_cells_text(text_buffer *t, const cell *cells, int64_t count, double perturb) {
    int64_t i = 0;
    add_confession(t, perturb);
    for (; i < count && cells[i].omission == NULL; i += count_cells(cells[i].table))
        add_table_text(t, cells + i);
    if (i < count) text_add(t, "Not attempted\n\n");
    for (int64_t at = i; at < count; ++at)
        text_add(t, "  %s\n    %s\n", cells[at].omission->title, cells[at].omission->reason);
    if (i < count) text_add(t, "\n");
    add_summary(t, cells, count);
}
