/* SPDX-License-Identifier: Apache-2.0 */
/* The cells as the Markdown of docs/reproduction.md. */
#include "reproduce/reproduce.h"

#include <string.h>

static const cell *find_cell(const cell *cells, int column, int row) {
    const published_table *table = cells->table;
    if (!is_cell(&table->column[column], row)) return NULL;
    while (cells->column != &table->column[column] || cells->row != row)
        ++cells;
    return cells;
}

/* Ours, and the paper's in brackets if it has one; `whole_column`: the heading says already that it is not compared. */
static void add_cell_markdown(text_buffer *t, const cell *c, bool whole_column) {
    char ours[32];
    text_add(t, c->verdict == OFF ? " **%s" : " %s", seven_digits(c->ours, ours));
    if (*cell_printed(c) != '\0') text_add(t, " (%s%s)", relation_words(cell_relation(c)), cell_printed(c));
    if (c->verdict == OFF) text_add(t, "**");
    text_add(t, "%s |", c->verdict == UNCLAIMED && !whole_column ? " \\*" : "");
}

static void add_row_markdown(text_buffer *t, const cell *cells, int row) {
    const published_table *table = cells->table;
    char label[24];
    text_add(t, "| %s |", row_label(table, row, label));
    for (int column = 0; column < table->columns; ++column) {
        const cell *c = find_cell(cells, column, row);
        if (c == NULL)
            text_add(t, " |");
        else
            add_cell_markdown(t, c, c->column->unclaimed);
    }
    text_add(t, "\n");
}

/* Columns that say the same are named once. */
static void add_notes(text_buffer *t, const published_table *table) {
    const char *before = "\n";
    for (int i = 0; i < table->columns; ++i) {
        const char *note = table->column[i].note;
        int sharing = 0;
        bool said = note == NULL;
        for (int j = 0; !said && j < table->columns; ++j) {
            bool same = table->column[j].note != NULL && strcmp(table->column[j].note, note) == 0;
            said = same && j < i;
            sharing += same;
        }
        if (said) continue;
        text_add(t, "%s- %s", before, sharing > 1 && sharing == table->columns ? "all" : table->column[i].name);
        for (int j = i + 1; sharing < table->columns && j < table->columns; ++j)
            if (table->column[j].note != NULL && strcmp(table->column[j].note, note) == 0)
                text_add(t, "; %s", table->column[j].name);
        text_add(t, ": %s\n", note);
        before = "";
    }
}

static void add_claims(text_buffer *t, const cell *cells) {
    const published_table *table = cells->table;
    if (table->claims == 0) return;
    const cell *claims = cells + count_cells(table) - table->claims;
    text_add(t, "\n| claim of the text | ours (paper) | note |\n|---|---|---|\n");
    for (int i = 0; i < table->claims; ++i) {
        text_add(t, "| %s |", claims[i].claim->label);
        add_cell_markdown(t, &claims[i], false);
        text_add(t, " %s |\n", claims[i].claim->note == NULL ? "" : claims[i].claim->note);
    }
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
    add_notes(t, table);
    add_claims(t, cells);
}

void add_cells_markdown(text_buffer *t, const cell *cells, int64_t count, double perturb) {
    int64_t i = 0;
    text_add(t, "# Published tables and figures, reproduced\n"
                "\n"
                "Made by `dpmf reproduce all --markdown`. Each cell has our figure and, in brackets, the figure "
                "printed in the paper.\n"
                "\"at most\" and \"at least\" are claims of the paper, and are compared as such. All are for prefix "
                "sums unless noted,\n"
                "and every loss includes the sensitivity. **Bold**: not within half a unit of the paper's last digit, "
                "or not on the claimed\n"
                "side. \\*: shown beside the paper's, not compared; the note gives the reason.\n"
                "`dpmf reproduce all --perturb 0.01` makes the comparison fail on purpose.\n"
                "\n");
    add_confession(t, perturb);
    add_summary(t, cells, count);
    for (; i < count && cells[i].omission == NULL; i += count_cells(cells[i].table))
        add_table_markdown(t, cells + i);
    if (i == count) return;
    text_add(t, "\n## Not attempted\n\n| result | why |\n|---|---|\n");
    for (; i < count; ++i)
        text_add(t, "| %s | %s |\n", cells[i].omission->title, cells[i].omission->reason);
}
