/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat maps. Cells of one colour are one path of horizontal runs, so that a picture of 128 x 128 cells takes some tens
 * of kilobytes. The colours diverge from the page's background: blue for positive, red for negative entries, and on
 * dark pages they become lighter, not darker, away from zero.
 */
#include "report/html.h"

#include <math.h>
#include <stdlib.h>

/* ---- colours ---- */

typedef struct stops {
    double rgb[4][3]; /* at 0, 1/3, 2/3 and 1 */
} stops;

static const stops light_positive = {{{238, 243, 249}, {146, 190, 226}, {40, 110, 180}, {6, 40, 92}}};
static const stops light_negative = {{{251, 240, 235}, {240, 164, 130}, {192, 55, 45}, {96, 4, 28}}};
static const stops dark_positive = {{{27, 38, 52}, {24, 84, 140}, {72, 156, 222}, {206, 234, 255}}};
static const stops dark_negative = {{{52, 32, 28}, {138, 46, 28}, {228, 104, 62}, {255, 222, 204}}};

static void colour(text_buffer *t, char sign, int level, const stops *s) {
    double at = 3.0 * (level - 1) / (HEAT_LEVELS - 1), rgb[3];
    int from = at >= 2.0 ? 2 : (int)at;
    for (int k = 0; k < 3; ++k)
        rgb[k] = s->rgb[from][k] + (at - from) * (s->rgb[from + 1][k] - s->rgb[from][k]);
    text_add(t, ".%c%d{fill:#%02x%02x%02x}", sign, level, (unsigned)lround(rgb[0]), (unsigned)lround(rgb[1]),
             (unsigned)lround(rgb[2]));
}

void heat_colours(text_buffer *t, bool dark) {
    for (int level = 1; level <= HEAT_LEVELS; ++level) {
        colour(t, 'p', level, dark ? &dark_positive : &light_positive);
        colour(t, 'n', level, dark ? &dark_negative : &light_negative);
    }
    text_add(t, "\n");
}

/* -HEAT_LEVELS to HEAT_LEVELS; 0 for what is smaller than the scale shows. */
static int level_of(double value, double largest) {
    if (value == 0.0 || largest <= 0.0) return 0;
    double decades = log10(fabs(value) / largest) + HEAT_DECADES; /* 0 to HEAT_DECADES in sight */
    int level = decades < 0.0 ? 0 : 1 + (int)(decades / HEAT_DECADES * HEAT_LEVELS);
    if (level > HEAT_LEVELS) level = HEAT_LEVELS;
    return value > 0.0 ? level : -level;
}

/* ---- the cells ---- */

static void runs_of_level(text_buffer *t, const heat *h, const signed char *levels, int level) {
    bool begun = false;
    for (int64_t i = 0; i < h->rows; ++i)
        for (int64_t j = 0, end; j < h->columns; j = end) {
            const signed char *row = levels + i * h->columns;
            for (end = j + 1; end < h->columns && row[end] == row[j]; ++end) {}
            if (row[j] != level) continue;
            if (!begun) text_add(t, "<path class=\"%c%d\" d=\"", level > 0 ? 'p' : 'n', level > 0 ? level : -level);
            begun = true;
            text_add(t, "M%lld %lldh%lldv1H%lldz", (long long)j, (long long)i, (long long)(end - j), (long long)j);
        }
    if (begun) text_add(t, "\"/>\n");
}

static void cells(text_buffer *t, const heat *h) {
    signed char *levels = allocate(h->rows * h->columns, 1);
    if (levels == NULL) {
        t->failed = true;
        return;
    }
    for (int64_t i = 0; i < h->rows * h->columns; ++i)
        levels[i] = (signed char)level_of(h->cells[i], h->largest);
    for (int level = -HEAT_LEVELS; level <= HEAT_LEVELS; ++level)
        if (level != 0) runs_of_level(t, h, levels, level);
    free(levels);
}

/* ---- the frame ---- */

enum { LEFT = 112, TOP = 54, SIDE = 512, VIEW = 640, BAR = 20 };

static void side_labels(text_buffer *t, const heat *h, double height) {
    char last[NUMBER];
    double bottom = TOP + height;
    text_add(t, "<text class=\"tick\" x=\"%d\" y=\"%d\">0</text>", LEFT, TOP - 10);
    text_add(t, "<text class=\"title\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">column</text>", LEFT + SIDE / 2.0,
             TOP - 10);
    if (h->all_columns > 1)
        text_add(t, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", LEFT + SIDE, TOP - 10,
                 pretty_count(h->all_columns - 1, last));
    text_add(t, "<text class=\"tick\" x=\"%d\" y=\"%d\" dy=\".8em\" text-anchor=\"end\">0</text>", LEFT - 8, TOP);
    text_add(t, "<text class=\"title\" x=\"%d\" y=\"%.1f\" dy=\".33em\" text-anchor=\"end\">row</text>", LEFT - 8,
             TOP + height / 2.0);
    if (h->all_rows > 1)
        text_add(t, "<text class=\"tick side\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>", LEFT - 8, bottom,
                 pretty_count(h->all_rows - 1, last));
}

/* The scale: negative levels from the left, zero in the middle, positive ones to the right. */
static void colour_bar(text_buffer *t, const heat *h, double y) {
    char text[NUMBER];
    const double step = SIDE / (2.0 * HEAT_LEVELS + 1.0);
    text_add(t, "<g shape-rendering=\"crispEdges\">");
    for (int level = -HEAT_LEVELS; level <= HEAT_LEVELS; ++level)
        if (level != 0)
            text_add(t, "<rect class=\"%c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>",
                     level > 0 ? 'p' : 'n', level > 0 ? level : -level, LEFT + step * (level + HEAT_LEVELS), y,
                     step + 0.2, BAR);
    text_add(t, "</g><rect class=\"outline\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>\n", LEFT, y, SIDE, BAR);
    for (int sign = -1; sign <= 1; sign += 2)
        for (int d = 0; d <= HEAT_DECADES; d += 2) {
            double at = LEFT + step * (HEAT_LEVELS + 0.5 + sign * (0.5 + HEAT_LEVELS - 3.0 * d));
            if (d == HEAT_DECADES) continue;
            text_add(t, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>", at, y + BAR + 24.0,
                     d == 0 ? (sign < 0 ? "start" : "end") : "middle",
                     pretty(sign * h->largest * pow(10.0, -d), 3, text));
        }
    text_add(t, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">0</text>", LEFT + SIDE / 2.0,
             y + BAR + 24.0);
}

void heat_picture(text_buffer *t, const heat *h, const char *label) {
    /* Entries are squares, unless far more rows than columns, or the other way, would make them too small to see. */
    double shape = (double)h->all_rows / (double)h->all_columns;
    double height = SIDE * (shape > 1.5 ? 1.5 : shape < 0.6 ? 0.6 : shape), bar = TOP + height + 24.0;
    text_add(t, "<svg role=\"img\" viewBox=\"0 0 %d %.0f\" aria-label=\"", VIEW, bar + BAR + 40.0);
    html_text(t, label);
    text_add(t, "\">\n<rect class=\"paper\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%.1f\"/>\n", LEFT, TOP, SIDE,
             height);
    text_add(t, "<g transform=\"translate(%d %d) scale(%.6g %.6g)\" shape-rendering=\"crispEdges\">\n", LEFT, TOP,
             SIDE / (double)h->columns, height / (double)h->rows);
    cells(t, h);
    text_add(t, "</g><rect class=\"outline\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%.1f\"/>\n", LEFT, TOP, SIDE,
             height);
    side_labels(t, h, height);
    colour_bar(t, h, bar);
    text_add(t, "</svg>\n");
}
