/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf report: columns of C and W as curves. Lags that matter range over many decades, so both axes are logarithmic
 * where there are enough of them; the sign is then in the mark (a ring is a negative entry), and lag 0 in the caption.
 */
#include "report/report.h"

#include <math.h>
#include <stdio.h>

enum { POINTS = 64, FEW = 24 };
static const double SMALLEST = 1e-12; /* of the largest: less is rounding, and would press the rest together */

typedef struct sample {
    int count;
    double lag[POINTS], value[POINTS];
} sample;

/*
 * Lags from 1 on in groups, each lag of the first ones alone and then evenly over the logarithm: the entry of largest
 * magnitude of each group. Groups of zeros are left out.
 */
static void sample_column(const double *column, int64_t from, int64_t rows, sample *out) {
    const int64_t most = rows - from - 1;
    const double factor = most > 1 ? pow((double)most, 1.0 / (POINTS - 16)) : 2.0;
    out->count = 0;
    for (int64_t lag = 1, end; lag <= most && out->count < POINTS; lag = end) {
        int64_t largest = lag;
        end = (int64_t)((double)lag * factor);
        if (end <= lag) end = lag + 1;
        for (int64_t i = lag; i < end && i <= most; ++i)
            if (fabs(column[from + i]) > fabs(column[from + largest])) largest = i;
        if (column[from + largest] == 0.0) continue;
        out->lag[out->count] = (double)largest;
        out->value[out->count++] = column[from + largest];
    }
}

static int64_t non_zero(const double *column, int64_t rows) {
    int64_t count = 0;
    for (int64_t i = 0; i < rows; ++i)
        count += column[i] != 0.0;
    return count;
}

static void numbers(text_buffer *t, const sample *s, double at_zero) {
    details_begin(t, "#lag|#entry");
    details_row(t, 2, (double[]){0.0, at_zero});
    int step = s->count > FEW ? (s->count + FEW - 1) / FEW : 1;
    for (int i = 0; i < s->count; i += step)
        details_row(t, 2, (double[]){s->lag[i], s->value[i]});
    details_end(t);
}

static void draw_sample(plot *p, int series, const sample *s) {
    double size[POINTS];
    for (int i = 0; i < s->count; ++i)
        size[i] = fabs(s->value[i]);
    plot_line(p, series, s->count, s->lag, size);
    for (int i = 0; i < s->count; ++i)
        plot_dot(p, series, s->lag[i], size[i], s->value[i] < 0.0);
}

/* Leaves out what is smaller than `least`, and makes room for the rest. */
static void cover(plot *p, sample *s, double least) {
    int kept = 0;
    for (int i = 0; i < s->count; ++i) {
        if (fabs(s->value[i]) < least) continue;
        s->lag[kept] = s->lag[i];
        s->value[kept++] = s->value[i];
        axis_cover(&p->x, s->lag[i]);
        axis_cover(&p->y, fabs(s->value[i]));
    }
    s->count = kept;
}

static void logarithmic(text_buffer *t, const column_pair *pair, const char *name) {
    sample first, middle = {0};
    char label[200], zero[NUMBER];
    sample_column(pair->first, 0, pair->rows, &first);
    if (pair->middle != NULL) sample_column(pair->middle, pair->steps / 2, pair->rows, &middle);
    plot p = {.x = axis_start("lag t", true), .y = axis_start("magnitude of the entry", true)};
    double largest = 0.0;
    for (int i = 0; i < first.count; ++i)
        largest = fmax(largest, fabs(first.value[i]));
    for (int i = 0; i < middle.count; ++i)
        largest = fmax(largest, fabs(middle.value[i]));
    cover(&p, &first, SMALLEST * largest);
    cover(&p, &middle, SMALLEST * largest);
    axis_round(&p.x, false);
    axis_round(&p.y, false);
    snprintf(label, sizeof label, "Magnitude of the entries of the first column of %s by lag, both axes logarithmic",
             name);
    figure_begin(t);
    plot_begin(&p, t, label);
    draw_sample(&p, 1, &first);
    if (middle.count > 0) draw_sample(&p, 2, &middle);
    plot_end(&p);
    legend_begin(t);
    legend_line(t, 1, "column 0");
    if (middle.count > 0) legend_line(t, 2, "column %lld, from its diagonal on", (long long)(pair->steps / 2));
    legend_dot(t, 1, false, "positive");
    legend_dot(t, 1, true, "negative");
    legend_end(t);
    figure_caption(t,
                   "Entries of %s by lag, logarithmic on both axes; with too many lags to draw, the largest of each "
                   "group; the entry at lag 0 is %s.",
                   name, pretty(pair->first[0], 6, zero));
    numbers(t, &first, pair->first[0]);
    figure_end(t);
}

/* Few entries, or a matrix whose rows are not steps: as they are. */
static void linear(text_buffer *t, const column_pair *pair, const char *name, bool square) {
    char label[200];
    int64_t last = 0, shown = 0;
    for (int64_t i = 0; i < pair->rows; ++i)
        if (pair->first[i] != 0.0) last = i;
    if (last < 9) last = pair->rows < 10 ? pair->rows - 1 : 9;
    plot p = {.x = axis_start(square ? "lag t" : "row", false), .y = axis_start("entry", false)};
    for (int64_t i = 0; i <= last; ++i)
        axis_cover(&p.y, pair->first[i]);
    p.x.whole = true;
    axis_cover(&p.x, 0.0);
    axis_cover(&p.x, (double)(last > 0 ? last : 1));
    axis_round(&p.x, false);
    axis_round(&p.y, true);
    snprintf(label, sizeof label, "Entries of the first column of %s", name);
    figure_begin(t);
    plot_begin(&p, t, label);
    plot_level(&p, 1, 0.0);
    int64_t every = last / 400 + 1; /* of more entries only the largest of each few */
    for (int64_t i = 0; i <= last; i += every) {
        int64_t largest = i;
        for (int64_t k = i; k < i + every && k <= last; ++k)
            if (fabs(pair->first[k]) > fabs(pair->first[largest])) largest = k;
        if (pair->first[largest] == 0.0) continue;
        plot_stem(&p, 1, (double)largest, pair->first[largest]);
        ++shown;
    }
    plot_end(&p);
    legend_begin(t);
    legend_dot(t, 1, false, "positive");
    legend_dot(t, 1, true, "negative");
    legend_end(t);
    figure_caption(t, "The first column of %s%s: %lld of its %lld entries are not zero, %lld of them are drawn.", name,
                   square         ? ""
                   : *name == 'C' ? " (it has more rows than steps)"
                                  : " (it has more columns than steps)",
                   (long long)non_zero(pair->first, pair->rows), (long long)pair->rows, (long long)shown);
    figure_end(t);
}

void picture_coefficients(text_buffer *t, const column_pair *pair, bool inverse) {
    bool square = pair->rows == pair->steps;
    const char *name = !inverse ? "C" : square ? "C⁻¹" : "W";
    if (square && non_zero(pair->first, pair->rows) >= 4)
        logarithmic(t, pair, name);
    else
        linear(t, pair, name, square);
}
