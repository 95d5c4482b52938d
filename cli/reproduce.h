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

/* MATRIX_ENTRY: C[row, row - diagonal]. */
typedef enum quantity { RMS_LOSS, MAX_LOSS, TOTAL_SQUARED_LOSS, ROOT_TOTAL_SQUARED_LOSS, MATRIX_ENTRY } quantity;

/* What the numbers of the rows are. */
typedef enum row_kind {
    ROWS_STEPS,      /* numbers of steps */
    ROWS_STAMPS,     /* numbers of stamps of the table's steps */
    ROWS_CONSTRAINT, /* forms of the constraint, as dpmf_constraint */
    ROWS_SETTLED,    /* steps after which the error is taken as settled */
    ROWS_MATRIX      /* rows of the matrix */
} row_kind;

/* One mechanism, for every row of the table. */
typedef struct published_column {
    const char *name; /* as the table heads it */
    const char *family;
    const char *workload; /* NULL: prefix sums */
    bool column_normalize;
    dpmf_sensitivity_bound sensitivity;
    bool optimize;          /* the best of the family, instead of its closed form */
    bool optimize_for_once; /* its stamps are optimized for single participation, not for their part of the epochs */
    bool sweep;             /* banded-toeplitz: the best of c_i = 1/i + c */
    bool over_best;         /* divided by the loss of the best strategy of `best` */
    const char *best;       /* its family */
    const int64_t *bands;   /* of every row; NULL: none */
    const int64_t *buffers;
    int diagonal;            /* of MATRIX_ENTRY */
    double unit;             /* of the last digit that the paper keeps; 0: the table's */
    double relative;         /* agrees within this part of the paper's figure too */
    bool or_less;            /* agrees when ours is less, too: the paper's is a bound, or was not fully optimized */
    bool unclaimed;          /* shown beside the paper, not compared: `note` says why */
    unsigned unclaimed_rows; /* bit i: the same for row i alone */
    const char *note;        /* NULL: nothing to say */
    const char *printed[ROWS_MOST]; /* the paper's figures, digit for digit; "NaN": no figure; NULL: no such cell */
} published_column;

typedef struct published_table {
    const char *name;  /* what `reproduce` is asked for */
    const char *title; /* source, quantity and setting */
    quantity quantity;
    double unit;               /* of the last digit that the paper keeps; 0: as the figure itself shows */
    const char *participation; /* as --participation */
    row_kind row_kind;
    int64_t steps; /* unless the rows are numbers of steps */
    int rows;
    int64_t row[ROWS_MOST];
    const char *label[ROWS_MOST]; /* NULL: the number */
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

/* Is there such a cell, and is it compared? */
static inline bool is_cell(const published_column *column, int row) {
    return column->printed[row] != NULL;
}
static inline bool is_claimed(const published_column *column, int row) {
    return !column->unclaimed && (column->unclaimed_rows >> row & 1u) == 0;
}

/* What a cell may be away from the paper's figure. */
double cell_tolerance(const cell *c);

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
