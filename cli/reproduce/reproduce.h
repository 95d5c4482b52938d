/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published tables and figures, ours beside theirs. The tables as data: reproduce_<paper>.c, listed in
 * reproduce/tables.c. Their values: reproduce/compute.c, and reproduce/book.c for what several figures share. How they
 * are shown: reproduce/print.c, reproduce/markdown.c. A table to come is one more entry of `published_tables`.
 */
#ifndef DPMF_CLI_REPRODUCE_H
#define DPMF_CLI_REPRODUCE_H

#include "output.h"

#include "dpmf.h"

#include <stdbool.h>
#include <stdint.h>

enum { ROWS_MOST = 16 };

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* MATRIX_ENTRY: C[row, row - diagonal]. */
typedef enum quantity { RMS_LOSS, MAX_LOSS, TOTAL_SQUARED_LOSS, ROOT_TOTAL_SQUARED_LOSS, MATRIX_ENTRY } quantity;

/* What the numbers of the rows are. */
typedef enum row_kind {
    ROWS_STEPS,       /* numbers of steps */
    ROWS_STAMPS,      /* numbers of stamps of the table's steps */
    ROWS_CONSTRAINT,  /* forms of the constraint, as dpmf_constraint */
    ROWS_SETTLED,     /* steps after which the error is taken as settled */
    ROWS_MATRIX,      /* rows of the matrix */
    ROWS_EPSILON,     /* privacy parameters, as their labels say */
    ROWS_BANDS,       /* numbers of bands of the table's steps */
    ROWS_EPOCHS,      /* numbers of epochs of the table's steps */
    ROWS_SEPARATION,  /* least separations of the table's steps */
    ROWS_COEFFICIENT, /* indices of Toeplitz coefficients */
    ROWS_MACHINES     /* runs, as their labels say */
} row_kind;

/* How ours must stand to the paper's figure. */
typedef enum relation {
    NEAR,    /* within the tolerance */
    AT_MOST, /* the paper states an upper bound, or a figure that must not be exceeded; `relative`: nor be far below */
    AT_LEAST
} relation;

typedef struct book book; /* reproduce/book.h */
struct published_table;
struct published_claim;

/* A figure of its own kind: that of row `row`. `parameter` is the column's. */
typedef dpmf_status (*column_value)(book *b, const struct published_table *table, double parameter, int row,
                                    double *ours, dpmf_kind *kind);
typedef dpmf_status (*claim_value)(book *b, const struct published_claim *claim, double *ours);

/* One mechanism, for every row of the table. */
typedef struct published_column {
    const char *name;   /* as the table heads it */
    column_value value; /* not NULL: this gives our figure, and the fields down to `diagonal` are not read */
    double parameter;   /* for it */
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
    int diagonal;    /* of MATRIX_ENTRY */
    double unit;     /* of the last digit that the paper keeps; 0: the table's */
    double relative; /* agrees within this part of the paper's figure too */
    relation relation;
    bool or_less;                   /* agrees when ours is less, too: the paper's was not fully optimized */
    bool unclaimed;                 /* shown beside the paper, not compared: `note` says why */
    unsigned unclaimed_rows;        /* bit i: the same for row i alone */
    const char *note;               /* NULL: nothing to say */
    const char *printed[ROWS_MOST]; /* the paper's figures, digit for digit; "": it has none; NULL: no such cell */
} published_column;

/* A number that the text states about a table or figure. Its cell has the column "claim". */
typedef struct published_claim {
    const char *label;   /* what is claimed, in our words: the row */
    const char *printed; /* the paper's figure; NULL: it gives none, ours is shown */
    relation relation;
    double unit, relative; /* as for columns */
    bool unclaimed;        /* not compared: `note` says what is right instead */
    const char *note;
    claim_value value;
    double epsilon; /* for it, as far as it reads them */
    int64_t steps, epochs, bands;
    int which;
} published_claim;

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
    int claims;
    const published_claim *claim;
} published_table;

extern const published_table *const published_tables[];
extern const int published_table_count;

extern const published_table denisov_table_2, choquette_choo_table_1, choquette_choo_table_3, choquette_choo_table_6,
    mckenna_example_b_1, mckenna_figure_1a, mckenna_figure_1b, mckenna_figure_2a, mckenna_figure_2b, mckenna_figure_6a,
    mckenna_figure_6b, mckenna_figure_7a, mckenna_figure_7b, mckenna_figure_8, mckenna_figure_10a, mckenna_figure_10b,
    mckenna_figure_11, mckenna_memory, mckenna_appendix_i, pillutla_table_2_2, pillutla_table_2_3;

/* A published result that is not computed here, and why; a part of `all` alone. */
typedef struct published_omission {
    const char *table;  /* as the names of tables are made */
    const char *title;  /* source and subject */
    const char *reason; /* what it would take */
} published_omission;

extern const published_omission published_omissions[];
extern const int published_omission_count;

typedef enum verdict { UNCLAIMED, AGREES, OFF } verdict;

/* One figure: of a column and a row, or of a claim, or of neither: an omission. */
typedef struct cell {
    const published_table *table; /* NULL for an omission */
    const published_column *column;
    const published_claim *claim;
    const published_omission *omission;
    int row;
    double ours, paper; /* NaN where there is none */
    dpmf_kind kind;     /* of ours: that of its sensitivity, or of its noise multiplier */
    verdict verdict;
} cell;

/* The table of that name; NULL if there is none. */
const published_table *find_published_table(const char *name);

/* Is there such a cell, and is it compared? */
static inline bool is_cell(const published_column *column, int row) {
    return column->printed[row] != NULL;
}
bool is_claimed(const cell *c);

/* The paper's figure as it is written; "" where there is none. */
const char *cell_printed(const cell *c);
relation cell_relation(const cell *c);

/* What a cell may be away from the paper's figure. */
double cell_tolerance(const cell *c);

/* Number of cells of `table`, of every table and the omissions if it is NULL. */
int64_t count_cells(const published_table *table);

/* Fills `cells`, column by column, then the claims. `perturb`: see --perturb. 0, or the exit code after a message. */
int compute_cells(const published_table *table, double perturb, int threads, cell *cells);

/* ours/paper - 1; NaN where there is no figure. */
double cell_difference(const cell *c);

bool all_agree(const cell *cells, int64_t count);

/* What the forms of printing share. */
const char *row_heading(const published_table *table);
const char *row_label(const published_table *table, int row, char out[24]);
const char *seven_digits(double value, char out[32]); /* with zeros at the end */
const char *relation_words(relation r);               /* "", "at most ", "at least " */
void add_confession(text_buffer *t, double perturb);
void add_summary(text_buffer *t, const cell *cells, int64_t count);

void add_cells_json(text_buffer *t, const cell *cells, int64_t count, double perturb);
void add_cells_text(text_buffer *t, const cell *cells, int64_t count, double perturb);
void add_cells_markdown(text_buffer *t, const cell *cells, int64_t count, double perturb);

#endif
