/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf report: C and its left inverse W, as cells of heat maps and as columns. A cell has the entry of largest
 * magnitude, with its sign, among the rows of its block and the columns that were read of it. Where both matrices are Toeplitz, or repeat a Toeplitz
 * block, every column is the first one shifted, and one column of each is enough; that they are is checked on another.
 */
#include "report/report.h"

#include "family.h"
#include "output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELLS_MOST = 128,
    LEVELS = 12, /* colours of each sign */
    DECADES = 4, /* below the largest magnitude: how far the colours reach */
    POINTS = 64, /* of a column on a logarithmic axis, */
    STEMS = 400  /* and on a linear one */
};
static const double ENTRIES_MOST = 67108864.0; /* entries read at most, */
static const double WORK_MOST = 1e9;           /* and multiplications for them: about a second */
static const double DENSE_WORK_MOST = 1.5e9;   /* multiplications at most for the inverse of a dense C */

typedef struct heat {
    int64_t rows, columns;
    double *cells;
} heat;

typedef struct matrix {
    report *r;
    bool inverse;
    int64_t rows, columns;
    int64_t block;  /* columns are shifts of `first` within blocks of this many; 0: they are not */
    double *first;  /* column 0 */
    double *column; /* the one being read */
    double *impulse;
} matrix;

static int matrix_start(report *r, bool inverse, matrix *m) {
    int64_t encoded = dpmf_strategy_get(r->strategy).rows;
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

/* Reads column 0, and decides whether it tells the others. */
static dpmf_status look_at_first(matrix *m) {
    const dpmf_strategy *s = m->r->strategy;
    const dpmf_family *kind = find_family(dpmf_strategy_get(s).family);
    dpmf_status status = compute_column(m, 0, m->first);
    if (status != DPMF_OK || kind == NULL || !kind->toeplitz) return status;
    if (dpmf_strategy_get(s).is_normalized || dpmf_strategy_get(s).rows != m->r->steps) return DPMF_OK;
    double largest = 0.0;
    const int64_t middle = m->columns / 2;
    m->block = m->columns / dpmf_strategy_get(m->r->strategy).stamps;
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
    /* A solve multiplies every buffer once per row; if there are very many buffers, it uses an FFT. */
    double each = fmin(32.0, 1.0 + (double)dpmf_strategy_get(m->r->strategy).buffers);
    if (m->block == 0 && m->inverse) most = at_most(WORK_MOST / (each * (double)m->rows), most);
    bool dense = strcmp(dpmf_strategy_get(m->r->strategy).family, DPMF_FAMILY_DENSE) == 0;
    if (dense && m->inverse) most = at_most(DENSE_WORK_MOST / (0.5 * (double)m->rows * (double)m->rows), most);
    return most;
}

/* The first row or column of block k, if `count` of them are cut into `cells` blocks. */
static int64_t begins(int64_t k, int64_t cells, int64_t count) {
    return (int64_t)((double)count * (double)k / (double)cells + 1e-9);
}

/* Reads column j, and keeps in the cells of its block what is larger than before. */
static dpmf_status take_column(matrix *m, const heat *h, int64_t j, int64_t cell) {
    dpmf_status status = m->block == 0 ? compute_column(m, j, m->column) : DPMF_OK;
    for (int64_t i = 0; m->block != 0 && i < m->rows; ++i)
        m->column[i] = shifted(m, i, j);
    for (int64_t k = 0; status == DPMF_OK && k < h->rows; ++k) {
        double *kept = h->cells + k * h->columns + cell;
        int64_t end = begins(k + 1, h->rows, m->rows);
        for (int64_t i = begins(k, h->rows, m->rows); i < end; ++i)
            if (fabs(m->column[i]) > fabs(*kept)) *kept = m->column[i];
    }
    return status;
}

/* Fills the cells; *read counts the columns looked at. */
static dpmf_status fill_cells(matrix *m, const heat *h, int64_t *read) {
    int64_t a_cell = columns_to_read(m) / h->columns;
    if (a_cell < 1) a_cell = 1;
    if (columns_to_read(m) == m->columns) a_cell = m->columns; /* all of every block */
    for (int64_t k = 0; k < h->columns; ++k) {
        int64_t from = begins(k, h->columns, m->columns), width = begins(k + 1, h->columns, m->columns) - from;
        int64_t count = width < a_cell ? width : a_cell;
        for (int64_t i = 0; i < count; ++i, ++*read) {
            dpmf_status status = take_column(m, h, from + begins(i, count, width), k);
            if (status != DPMF_OK) return status;
        }
        double done = (double)(k + 1) / (double)h->columns;
        if (m->r->run.progress(m->r->run.context, m->inverse ? "picture of the inverse" : "picture of C", done) != 0)
            return DPMF_ERROR_CANCELLED;
    }
    return DPMF_OK;
}

/* -LEVELS to LEVELS, logarithmic; 0 for what is smaller than the colours show. */
static int level_of(double value, double largest) {
    if (value == 0.0 || largest <= 0.0) return 0;
    double decades = log10(fabs(value) / largest) + DECADES; /* 0 to DECADES in sight */
    int level = decades < 0.0 ? 0 : 1 + (int)(decades / DECADES * LEVELS);
    if (level > LEVELS) level = LEVELS;
    return value > 0.0 ? level : -level;
}

static dpmf_status add_cells(matrix *m, text_buffer *t) {
    heat h = {.rows = m->rows < CELLS_MOST ? m->rows : CELLS_MOST,
              .columns = m->columns < CELLS_MOST ? m->columns : CELLS_MOST};
    int64_t affordable = columns_to_read(m), read = 0;
    double largest = 0.0;
    if (m->block == 0 && h.columns > affordable) h.columns = affordable;
    h.cells = allocate(h.rows * h.columns, sizeof *h.cells);
    if (h.cells == NULL) return DPMF_ERROR_MEMORY;
    dpmf_status status = fill_cells(m, &h, &read);
    for (int64_t i = 0; i < h.rows * h.columns; ++i)
        largest = fmax(largest, fabs(h.cells[i]));
    if (status == DPMF_OK) {
        json_open(t, NULL, '{');
        json_bool(t, "inverse", m->inverse);
        json_integer(t, "rows", m->rows);
        json_integer(t, "columns", m->columns);
        json_integer(t, "columns_read", read);
        json_double(t, "largest", largest);
        json_open(t, "levels", '[');
        for (int64_t i = 0; i < h.rows; ++i) {
            json_open(t, NULL, '[');
            for (int64_t j = 0; j < h.columns; ++j)
                json_integer(t, NULL, level_of(h.cells[i * h.columns + j], largest));
            json_close(t, ']');
        }
        json_close(t, ']');
    }
    free(h.cells);
    return status;
}

/* ---- columns ---- */

/*
 * Entries by lag, from `lag` on: of each group of lags the one of largest magnitude. Groups grow by `factor` where that
 * is more than `width`, so that they are even on a logarithmic axis (width 1) or on a linear one (factor 1). Groups of
 * zeros are left out.
 */
static void add_column(text_buffer *t, const char *key, const double *entries, int64_t lag, int64_t last, int64_t width,
                       double factor) {
    json_open(t, key, '[');
    for (int64_t end; lag <= last; lag = end) {
        int64_t largest = lag;
        end = (int64_t)((double)lag * factor);
        if (end < lag + width) end = lag + width;
        for (int64_t i = lag; i < end && i <= last; ++i)
            if (fabs(entries[i]) > fabs(entries[largest])) largest = i;
        if (entries[largest] == 0.0) continue;
        json_open(t, NULL, '[');
        json_integer(t, NULL, largest);
        json_double(t, NULL, entries[largest]);
        json_close(t, ']');
    }
    json_close(t, ']');
}

/*
 * The first column, and the middle one where it is not the first one shifted. Lags that matter range over many decades,
 * so the axes are logarithmic, and lag 0 stands alone; few entries, or rows that are no steps, are shown as they are.
 */
static void add_columns(matrix *m, text_buffer *t) {
    const bool square = m->rows == m->columns;
    const int64_t middle = m->columns / 2;
    const double root = 1.0 / (POINTS - 16);
    int64_t non_zero = 0, last = 0;
    for (int64_t i = 0; i < m->rows; ++i) {
        if (m->first[i] == 0.0) continue;
        last = i;
        ++non_zero;
    }
    const bool logarithmic = square && non_zero >= 4;
    json_integer(t, "non_zero", non_zero);
    json_double(t, "at_zero", m->first[0]);
    json_bool(t, "logarithmic", logarithmic);
    if (logarithmic)
        add_column(t, "first", m->first, 1, m->rows - 1, 1, fmax(1.0, pow((double)(m->rows - 1), root)));
    else
        add_column(t, "first", m->first, 0, last, last / STEMS + 1, 1.0);
    if (logarithmic && m->block == 0 && m->columns > 2 && compute_column(m, middle, m->column) == DPMF_OK)
        add_column(t, "middle", m->column + middle, 1, m->rows - middle - 1, 1,
                   fmax(1.0, pow((double)(m->rows - middle - 1), root)));
    json_close(t, '}');
}

int report_matrices(report *r, text_buffer *t) {
    int code = 0;
    json_open(t, "matrices", '[');
    for (int inverse = 0; code == 0 && inverse <= 1; ++inverse) {
        matrix m;
        code = matrix_start(r, inverse == 1, &m);
        dpmf_status status = code == 0 ? look_at_first(&m) : DPMF_OK;
        if (code == 0 && status == DPMF_OK) status = add_cells(&m, t);
        if (code == 0 && status == DPMF_OK) add_columns(&m, t);
        if (code == 0) code = report_without(r, status, inverse ? "The picture of the inverse" : "The picture of C");
        free(m.first);
        free(m.column);
        free(m.impulse);
    }
    json_close(t, ']');
    return code;
}
