/* SPDX-License-Identifier: Apache-2.0 */
/* Text and numbers of an HTML page, and pictures as inline SVG whose colours follow the page's style sheet. */
#ifndef DPMF_CLI_REPORT_HTML_H
#define DPMF_CLI_REPORT_HTML_H

#include "output.h"

/* Any bytes as HTML text or a quoted attribute: markup escaped, what is not printable UTF-8 replaced. */
void html_text(text_buffer *t, const char *text);
void html_words(text_buffer *t, const char *sentences); /* the same, with Greek letters (letters/letters.h) */

/* A number for people: `digits` significant ones, powers of ten as 1.5×10⁻⁶ (UTF-8). Returns `out`. */
enum { NUMBER = 64 };
const char *pretty(double value, int digits, char out[NUMBER]);
const char *pretty_count(int64_t value, char out[NUMBER]);  /* 16 384, in threes */
const char *pretty_bytes(uint64_t value, char out[NUMBER]); /* 1.5 GB */
const char *pretty_seconds(double value, char out[NUMBER]);

/* "exact", "upper bound", ... as a small badge. */
void html_kind(text_buffer *t, dpmf_kind kind);
void html_badge(text_buffer *t, const char *style, const char *text);

/* ---- pictures ---- */

typedef struct axis {
    double low, high;
    bool log;
    bool whole; /* whole numbers alone have labels */
    const char *title;
} axis;

/* A frame with two axes; coordinates are units of the view box. */
typedef struct plot {
    text_buffer *t;
    axis x, y;
    double left, top, width, height;
    const char *label; /* what a screen reader says */
} plot;

/* An axis around values: NaN and, on a logarithmic one, values of 0 or less are left out by axis_cover. */
axis axis_start(const char *title, bool log);
void axis_cover(axis *a, double value);
void axis_round(axis *a, bool from_zero); /* room at both ends; never empty */

void plot_begin(plot *p, text_buffer *t, const char *label);
void plot_line(plot *p, int series, int64_t count, const double *x, const double *y);
/* y at 0 .. count-1; more than the picture can show are thinned so that every extreme stays. */
void plot_sequence(plot *p, int series, int64_t count, const double *y);
void plot_dot(plot *p, int series, double x, double y, bool hollow);
void plot_ring(plot *p, double x, double y); /* around a point to be noticed */
void plot_stem(plot *p, int series, double x, double y);
void plot_level(plot *p, int series, double y); /* a line across */
void plot_mark(plot *p, double x, double y, const char *text);
void plot_end(plot *p);

/* The key under a picture: series are numbered from 1 and differ in colour and dashes. */
void legend_begin(text_buffer *t);
void legend_line(text_buffer *t, int series, const char *format, ...) PRINTF_LIKE(3, 4); /* plain text */
void legend_dot(text_buffer *t, int series, bool hollow, const char *text);
void legend_end(text_buffer *t);

/*
 * A matrix of `rows` x `columns` cells, row-major, for one of `all_rows` x `all_columns` entries. Colours are
 * logarithmic in |value| over HEAT_DECADES decades below `largest`, one scale for each sign.
 */
enum { HEAT_LEVELS = 12, HEAT_DECADES = 4 };
typedef struct heat {
    int64_t rows, columns, all_rows, all_columns;
    const double *cells;
    double largest;
} heat;
void heat_picture(text_buffer *t, const heat *h, const char *label);
void heat_colours(text_buffer *t, bool dark); /* style rules of the levels */

#endif
