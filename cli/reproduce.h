/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published tables, ours beside theirs: the tables as data (reproduce_tables.c), the figures (reproduce_compute.c) and
 * how they are shown (reproduce_print.c). A table to come is one more entry of `published_tables`.
 */
#ifndef DPMF_CLI_REPRODUCE_H
#define DPMF_CLI_REPRODUCE_H

#include "output.h"

#include "dpmf.h"

#include <stdbool.h>
#include <stdint.h>

enum { ROWS_MOST = 11 };

typedef enum quantity { RMS_LOSS, MAX_LOSS, TOTAL_SQUARED_LOSS, ROOT_TOTAL_SQUARED_LOSS } quantity;

/* One mechanism, for every row of the table. */
typedef struct published_column {
    const char *name; /* as the table heads it */
    const char *family;
    bool column_normalize;
    dpmf_sensitivity_bound sensitivity;
    bool unclaimed;                 /* shown beside the paper, not compared: `note` says why */
    const char *note;               /* NULL: nothing to say */
    const char *printed[ROWS_MOST]; /* the paper's figures, digit for digit; "NaN" stands for no figure */
} published_column;

typedef struct published_table {
    const char *name;  /* what `reproduce` is asked for */
    const char *title; /* source, quantity and setting */
    quantity quantity;
    double unit;               /* of the last digit that the paper keeps */
    const char *participation; /* as --participation */
    int64_t steps;             /* 0: the rows are numbers of steps; else they are numbers of stamps of these steps */
    int rows;
    int64_t row[ROWS_MOST];
    int columns;
    const published_column *column;
} published_table;

extern const published_table published_tables[];
extern const int published_table_count;

typedef enum verdict { UNCLAIMED, AGREES, OFF } verdict;

typedef struct cell {
    const published_table *table;
    const published_column *column;
    int row;
    double ours, paper; /* paper is NaN where it prints no figure */
    dpmf_kind kind;     /* of ours: that of its sensitivity */
    verdict verdict;
} cell;

/* The table of that name; NULL if there is none. */
const published_table *find_published_table(const char *name);

/* Number of cells of `table`, of every table if it is NULL. */
int64_t count_cells(const published_table *table);

/* Fills `cells`, column by column. `perturb`: see --perturb. 0, or the exit code after a message. */
int compute_cells(const published_table *table, double perturb, int threads, cell *cells);

/* ours/paper - 1; NaN where the paper prints no figure. */
double cell_difference(const cell *c);

bool all_agree(const cell *cells, int64_t count);

void add_cells_json(text_buffer *t, const cell *cells, int64_t count, double perturb);
void add_cells_text(text_buffer *t, const cell *cells, int64_t count, double perturb);
void add_cells_markdown(text_buffer *t, const cell *cells, int64_t count, double perturb);

#endif
