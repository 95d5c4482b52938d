/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf report: C and its left inverse W as heat maps. A cell shows the entry of largest magnitude, with its sign, among
 * the rows of its block and the columns that were read of it. Where both matrices are Toeplitz, or repeat a Toeplitz
 * block, every column is the first one shifted, and one column of each is enough; that they are is checked on another.
 */
#include "report/report.h"

#include "family.h"
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_MOST = 128 };
static const double ENTRIES_MOST = 67108864.0; /* entries read at most, */
static const double WORK_MOST = 1e9;           /* and multiplications for them: about a second */
static const double DENSE_WORK_MOST = 1.5e9;   /* multiplications at most for the inverse of a dense C */

typedef struct matrix {
    report *r;
    bool inverse;
    int64_t rows, columns;
    int64_t block;  /* columns are shifts of `first` within blocks of so many; 0: they are not */
    double *first;  /* column 0 */
    double *column; /* the one being read */
    double *impulse;
} matrix;

static void matrix_free(matrix *m) {
    free(m->first);
    free(m->column);
    free(m->impulse);
}

static int matrix_start(report *r, bool inverse, matrix *m) {
    int64_t encoded = dpmf_strategy_rows(r->strategy);
    *m = (matrix){.r = r, .inverse = inverse};
    m->rows = inverse ? r->steps : encoded;
    m->columns = inverse ? encoded : r->steps;
    m->first = allocate(m->rows, sizeof(double));
    m->column = allocate(m->rows, sizeof(double));
    m->impulse = allocate(inverse ? encoded : 1, sizeof(double));
    return m->first != NULL && m->column != NULL && m->impulse != NULL ? 0 : fail_memory();
}

/* Column j as the library has it. */
static dpmf_status compute_column(matrix *m, int64_t j, double *out) {
    if (!m->inverse) return dpmf_strategy_column(m->r->strategy, j, out);
    m->impulse[j] = 1.0;
    dpmf_status status = dpmf_strategy_solve(m->r->strategy, m->impulse, out);
    m->impulse[j] = 0.0;
    return status;
}

static double shifted(const matrix *m, int64_t i, int64_t j) {
    return i >= j && i / m->block == j / m->block ? m->first[i - j] : 0.0;
}

static bool may_be_toeplitz(const report *r) {
    const dpmf_family *kind = find_family(dpmf_strategy_family(r->strategy));
    if (dpmf_strategy_is_normalized(r->strategy) || dpmf_strategy_rows(r->strategy) != r->steps) return false;
    return kind != NULL && kind->toeplitz;
}

/* Reads column 0, and decides whether it tells the others. */
static dpmf_status look_at_first(matrix *m) {
    dpmf_status status = compute_column(m, 0, m->first);
    if (status != DPMF_OK || !may_be_toeplitz(m->r)) return status;
    double largest = 0.0;
    const int64_t middle = m->columns / 2;
    m->block = m->columns / dpmf_strategy_stamps(m->r->strategy);
    status = compute_column(m, middle, m->column);
    for (int64_t i = 0; i < m->rows; ++i)
        largest = fmax(largest, fabs(m->first[i]));
    for (int64_t i = 0; status == DPMF_OK && i < m->rows && m->block > 0; ++i)
        if (fabs(m->column[i] - shifted(m, i, middle)) > 1e-9 * largest) m->block = 0;
    return status;
}

/* ---- cells ---- */

static int64_t at_most(double wanted, int64_t limit) {
    return wanted < 1.0 ? 1 : wanted < (double)limit ? (int64_t)wanted : limit;
}

/* How many columns may be read in all. */
static int64_t columns_to_read(const matrix *m) {
    int64_t most = at_most(ENTRIES_MOST / (double)m->rows, m->columns);
    /* A solve multiplies every buffer once a row; where there are very many it is done by FFT. */
    double each = fmin(32.0, 1.0 + (double)dpmf_strategy_buffers(m->r->strategy));
    if (m->block == 0 && m->inverse) most = at_most(WORK_MOST / (each * (double)m->rows), most);
    bool dense = strcmp(dpmf_strategy_family(m->r->strategy), DPMF_FAMILY_DENSE) == 0;
    if (dense && m->inverse) most = at_most(DENSE_WORK_MOST / (0.5 * (double)m->rows * (double)m->rows), most);
    return most;
}

/* Where block k of `cells` begins, of so many rows or columns. */
static int64_t begins(int64_t k, int64_t cells, int64_t count) {
    return (int64_t)((double)count * (double)k / (double)cells + 1e-9);
}

static void take_column(const heat *h, int64_t cell, const double *column, double *cells) {
    for (int64_t k = 0; k < h->rows; ++k) {
        double *kept = cells + k * h->columns + cell;
        int64_t end = begins(k + 1, h->rows, h->all_rows);
        for (int64_t i = begins(k, h->rows, h->all_rows); i < end; ++i)
            if (fabs(column[i]) > fabs(*kept)) *kept = column[i];
    }
}

static dpmf_status read_column(matrix *m, int64_t j) {
    if (m->block == 0) return compute_column(m, j, m->column);
    for (int64_t i = 0; i < m->rows; ++i)
        m->column[i] = shifted(m, i, j);
    return DPMF_OK;
}

/* Fills `cells`; *read counts the columns looked at. */
static dpmf_status fill_cells(matrix *m, const heat *h, double *cells, int64_t *read) {
    int64_t a_cell = columns_to_read(m) / h->columns;
    if (a_cell < 1) a_cell = 1;
    if (columns_to_read(m) == m->columns) a_cell = m->columns; /* all of every block */
    for (int64_t k = 0; k < h->columns; ++k) {
        int64_t from = begins(k, h->columns, m->columns), width = begins(k + 1, h->columns, m->columns) - from;
        int64_t count = width < a_cell ? width : a_cell;
        for (int64_t i = 0; i < count; ++i, ++*read) {
            dpmf_status status = read_column(m, from + begins(i, count, width));
            if (status != DPMF_OK) return status;
            take_column(h, k, m->column, cells);
        }
        double done = (double)(k + 1) / (double)h->columns;
        if (m->r->run.progress(m->r->run.context, m->inverse ? "picture of the inverse" : "picture of C", done) != 0)
            return DPMF_ERROR_CANCELLED;
    }
    return DPMF_OK;
}

/* ---- the picture ---- */

static void caption(const matrix *m, const heat *h, int64_t read, text_buffer *t) {
    char rows[NUMBER], columns[NUMBER], seen[NUMBER], name[120];
    snprintf(name, sizeof name, "%s, %s × %s.",
             !m->inverse             ? "C, the encoder"
             : m->rows == m->columns ? "C⁻¹"
                                     : "W, the decoder, a left inverse of C",
             pretty_count(m->rows, rows), pretty_count(m->columns, columns));
    bool whole = h->rows == m->rows && h->columns == m->columns;
    const char *scale = "Blue is positive, red negative; the colour scale is logarithmic over four decades.";
    if (whole)
        figure_caption(t, "%s Every entry is shown. %s", name, scale);
    else
        figure_caption(t,
                       "%s Each cell has the entry of largest magnitude of its block; %s of %s columns were read. %s",
                       name, read == m->columns ? "all" : pretty_count(read, seen), columns, scale);
    figure_end(t);
}

static dpmf_status draw(matrix *m, text_buffer *t) {
    heat h = {.all_rows = m->rows, .all_columns = m->columns};
    int64_t affordable = columns_to_read(m), read = 0;
    h.rows = m->rows < CELLS_MOST ? m->rows : CELLS_MOST;
    h.columns = m->columns < CELLS_MOST ? m->columns : CELLS_MOST;
    if (m->block == 0 && h.columns > affordable) h.columns = affordable;
    double *cells = allocate(h.rows * h.columns, sizeof *cells);
    if (cells == NULL) return DPMF_ERROR_MEMORY;
    dpmf_status status = fill_cells(m, &h, cells, &read);
    if (status == DPMF_OK) {
        char label[200], largest[NUMBER];
        for (int64_t i = 0; i < h.rows * h.columns; ++i)
            h.largest = fmax(h.largest, fabs(cells[i]));
        h.cells = cells;
        snprintf(label, sizeof label, "Heat map of %s, %lld rows and %lld columns, entries up to %s in magnitude",
                 m->inverse ? "the left inverse of C" : "C", (long long)m->rows, (long long)m->columns,
                 pretty(h.largest, 4, largest));
        figure_begin(t);
        heat_picture(t, &h, label);
        caption(m, &h, read, t);
    }
    free(cells);
    return status;
}

static void coefficients(matrix *m, text_buffer *t) {
    column_pair pair = {.rows = m->rows, .steps = m->columns, .first = m->first};
    if (m->block == 0 && m->columns > 2 && m->rows == m->columns &&
        compute_column(m, m->columns / 2, m->column) == DPMF_OK)
        pair.middle = m->column;
    picture_coefficients(t, &pair, m->inverse);
}

int section_matrices(report *r, text_buffer *t) {
    text_buffer later = {0};
    bool square = dpmf_strategy_rows(r->strategy) == r->steps;
    int code = 0;
    section_begin(t, "matrices", square ? "The matrices C and C⁻¹" : "The matrices C and W",
                  "Row t of the second matrix mixes the independent normal rows Z into the noise of step t: negative "
                  "entries cancel noise that earlier steps added.");
    text_add(t, "<div class=\"pair\">\n");
    for (int inverse = 0; code == 0 && inverse <= 1; ++inverse) {
        matrix m;
        code = matrix_start(r, inverse == 1, &m);
        dpmf_status status = code == 0 ? look_at_first(&m) : DPMF_OK;
        if (code == 0 && status == DPMF_OK) status = draw(&m, t);
        if (code == 0 && status == DPMF_OK) coefficients(&m, &later);
        if (code == 0) code = report_without(r, status, inverse ? "The picture of the inverse" : "The picture of C");
        matrix_free(&m);
    }
    text_add(t, "</div>\n");
    section_end(t);
    section_begin(t, "coefficients", "Coefficients",
                  "The first column of each matrix: how far back in time a step's noise reaches.");
    text_add(t, "<div class=\"pair\">\n");
    if (later.length > 0) text_add_bytes(t, later.bytes, later.length);
    t->failed = t->failed || later.failed;
    text_free(&later);
    text_add(t, "</div>\n");
    section_end(t);
    return code;
}
