/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures with two axes. The text of a picture is sized by the style sheet, larger on narrow screens where the whole
 * picture is drawn smaller; the margins leave room for that, and every other label carries the class `more`, which
 * narrow screens hide.
 */
#include "report/html.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { VIEW_WIDTH = 640, VIEW_HEIGHT = 400, SHOWN_POINTS = 360, MARKS = 64 };

/* ---- axes ---- */

axis axis_start(const char *title, bool log) {
    return (axis){.low = HUGE_VAL, .high = -HUGE_VAL, .log = log, .title = title};
}

void axis_cover(axis *a, double value) {
    if (!isfinite(value) || (a->log && value <= 0.0)) return;
    if (value < a->low) a->low = value;
    if (value > a->high) a->high = value;
}

void axis_round(axis *a, bool from_zero) {
    if (a->low > a->high) a->low = a->log ? 1.0 : 0.0, a->high = a->log ? 10.0 : 1.0; /* nothing was covered */
    if (a->log) {
        double part = 0.04 * log(a->high / a->low);
        if (part < 1e-6) part = 0.7; /* one value alone: about a factor of two to each side */
        a->low *= exp(-part);
        a->high *= exp(part);
        return;
    }
    if (from_zero && a->low > 0.0) a->low = 0.0;
    if (from_zero && a->high < 0.0) a->high = 0.0;
    double width = a->high - a->low;
    if (width <= 1e-9 * fabs(a->high)) width = a->high != 0.0 ? fabs(a->high) : 1.0;
    a->high += 0.06 * width;
    if (!(from_zero && a->low == 0.0)) a->low -= 0.06 * width;
}

static double place(const axis *a, double value) {
    if (a->log) return log(value / a->low) / log(a->high / a->low);
    return (value - a->low) / (a->high - a->low);
}

static double at_x(const plot *p, double x) {
    return p->left + p->width * place(&p->x, x);
}

static double at_y(const plot *p, double y) {
    return p->top + p->height * (1.0 - place(&p->y, y));
}

/* Where lines of the grid are, and which of them have labels. */
typedef struct scale {
    int count, labels;
    double value[MARKS];
    bool label[MARKS], minor[MARKS]; /* minor: the first labels to go where there is little room */
} scale;

static void mark(scale *s, double value, bool label, bool minor) {
    if (s->count == MARKS) return;
    s->value[s->count] = value;
    s->label[s->count] = label;
    s->minor[s->count++] = minor;
    s->labels += label;
}

/* Steps of 1, 2 or 5 times a power of ten, about five of them. */
static void linear_marks(const axis *a, scale *s) {
    double rough = (a->high - a->low) / 5.0, power = pow(10.0, floor(log10(rough))), part = rough / power;
    double step = power * (part < 1.5 ? 1.0 : part < 3.5 ? 2.0 : part < 7.5 ? 5.0 : 10.0);
    if (a->whole && step < 1.0) step = 1.0;
    const double room = 1e-9 * step;
    for (double i = ceil(a->low / step - 1e-9); i * step <= a->high + room && s->count < MARKS; i += 1.0)
        mark(s, fabs(i * step) < room ? 0.0 : i * step, true, fmod(i, 2.0) != 0.0);
}

/* Powers of ten; with few of them in sight also 2 and 5 times one. */
static void log_marks(const axis *a, scale *s) {
    int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high)), decades = last - first;
    double span = log10(a->high / a->low);
    int every = decades > 21 ? 6 : decades > 14 ? 4 : decades > 7 ? 2 : 1;
    for (int i = first; i <= last; ++i)
        for (int k = 1; k <= 5; k = k == 1 ? 2 : k + 3) {
            double value = k * pow(10.0, i);
            if ((k > 1 && span > 2.6) || value < a->low || value > a->high) continue;
            mark(s, value, k > 1 || i % every == 0, k > 1 || (span > 2.6 && (i / every) % 2 != 0));
        }
}

static void draw_mark(plot *p, bool across, double value, bool label, bool more) {
    char text[NUMBER];
    if (across) {
        double x = at_x(p, value), end = p->top + p->height;
        text_add(p->t, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, p->top, end);
        bool last = x > p->left + p->width - 20.0; /* a long label in the middle of it would leave the picture */
        if (label)
            text_add(p->t, "<text class=\"tick%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
                     more ? " more" : "", last ? VIEW_WIDTH - 3.0 : x, end + 24.0, last ? "end" : "middle",
                     pretty(value, 6, text));
    } else {
        double y = at_y(p, value);
        text_add(p->t, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", p->left, y, p->left + p->width);
        if (label)
            text_add(p->t, "<text class=\"tick%s\" x=\"%.1f\" y=\"%.1f\" dy=\".33em\" text-anchor=\"end\">%s</text>",
                     more ? " more" : "", p->left - 8.0, y, pretty(value, 6, text));
    }
}

static void draw_axis(plot *p, bool across) {
    const axis *a = across ? &p->x : &p->y;
    const int roomy = across ? 5 : 7; /* labels that fit at the larger size of narrow screens */
    scale s = {0};
    if (a->log && log10(a->high / a->low) > 0.9)
        log_marks(a, &s);
    else
        linear_marks(a, &s);
    for (int i = 0; i < s.count; ++i)
        draw_mark(p, across, s.value[i], s.label[i], s.labels > roomy && s.minor[i]);
}

void plot_begin(plot *p, text_buffer *t, const char *label) {
    p->t = t;
    p->left = 92.0;
    p->top = 44.0;
    p->width = VIEW_WIDTH - p->left - 22.0;
    p->height = VIEW_HEIGHT - p->top - 68.0;
    assert(p->x.low < p->x.high && p->y.low < p->y.high);
    text_add(t, "<svg role=\"img\" viewBox=\"0 0 %d %d\" aria-label=\"", VIEW_WIDTH, VIEW_HEIGHT);
    html_text(t, label);
    text_add(t, "\">");
    draw_axis(p, true);
    draw_axis(p, false);
    text_add(t, "<path class=\"frame\" d=\"M%.1f %.1fV%.1fH%.1f\"/>", p->left, p->top, p->top + p->height,
             p->left + p->width);
    text_add(t, "<text class=\"title\" x=\"12\" y=\"24\">");
    html_text(t, p->y.title);
    text_add(t, "</text><text class=\"title\" x=\"%.1f\" y=\"%d\" text-anchor=\"end\">", p->left + p->width,
             VIEW_HEIGHT - 12);
    html_text(t, p->x.title);
    text_add(t, "</text>\n");
}

void plot_end(plot *p) {
    text_add(p->t, "</svg>\n");
}

/* ---- what is drawn in it ---- */

static bool visible(const plot *p, double x, double y) {
    return isfinite(x) && isfinite(y) && (!p->x.log || x > 0.0) && (!p->y.log || y > 0.0);
}

static void line_to(plot *p, bool *begun, double x, double y) {
    if (!visible(p, x, y)) return;
    text_add(p->t, "%c%.1f %.1f", *begun ? 'L' : 'M', at_x(p, x), at_y(p, y));
    *begun = true;
}

void plot_line(plot *p, int series, int64_t count, const double *x, const double *y) {
    bool begun = false;
    text_add(p->t, "<path class=\"line s%d\" d=\"", series);
    for (int64_t i = 0; i < count; ++i)
        line_to(p, &begun, x[i], y[i]);
    text_add(p->t, "\"/>\n");
}

/* The least and the largest of each group of steps, in the order in which they come. */
static void thinned(plot *p, bool *begun, int64_t count, const double *y) {
    const int groups = SHOWN_POINTS / 2;
    for (int g = 0; g < groups; ++g) {
        int64_t from = (int64_t)((double)count * g / groups), to = (int64_t)((double)count * (g + 1) / groups);
        int64_t least = from, largest = from;
        for (int64_t i = from; i < to; ++i) {
            if (y[i] < y[least]) least = i;
            if (y[i] > y[largest]) largest = i;
        }
        int64_t first = least < largest ? least : largest, second = least < largest ? largest : least;
        line_to(p, begun, (double)first, y[first]);
        if (second != first) line_to(p, begun, (double)second, y[second]);
    }
    line_to(p, begun, (double)(count - 1), y[count - 1]);
}

void plot_sequence(plot *p, int series, int64_t count, const double *y) {
    bool begun = false;
    text_add(p->t, "<path class=\"line s%d\" d=\"", series);
    if (count > SHOWN_POINTS)
        thinned(p, &begun, count, y);
    else
        for (int64_t i = 0; i < count; ++i)
            line_to(p, &begun, (double)i, y[i]);
    text_add(p->t, "\"/>\n");
    if (count == 1) plot_dot(p, series, 0.0, y[0], false);
}

void plot_dot(plot *p, int series, double x, double y, bool hollow) {
    if (!visible(p, x, y)) return;
    text_add(p->t, "<circle class=\"%s s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>", hollow ? "hollow" : "dot", series,
             at_x(p, x), at_y(p, y));
}

void plot_ring(plot *p, double x, double y) {
    if (visible(p, x, y))
        text_add(p->t, "<circle class=\"ring\" cx=\"%.1f\" cy=\"%.1f\" r=\"9\"/>", at_x(p, x), at_y(p, y));
}

void plot_stem(plot *p, int series, double x, double y) {
    text_add(p->t, "<path class=\"line thin s%d\" d=\"M%.1f %.1fV%.1f\"/>", series, at_x(p, x), at_y(p, 0.0),
             at_y(p, y));
    plot_dot(p, series, x, y, y < 0.0);
}

void plot_level(plot *p, int series, double y) {
    text_add(p->t, "<path class=\"line s%d\" d=\"M%.1f %.1fH%.1f\"/>", series, p->left, at_y(p, y), p->left + p->width);
}

void plot_mark(plot *p, double x, double y, const char *text) {
    plot_ring(p, x, y);
    bool right = at_x(p, x) > p->left + 0.75 * p->width;
    text_add(p->t, "<text class=\"mark\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", at_x(p, x) + (right ? 9.0 : -9.0),
             at_y(p, y) - 16.0, right ? "end" : "start");
    html_text(p->t, text);
    text_add(p->t, "</text>");
}

/* ---- the key ---- */

void legend_begin(text_buffer *t) {
    text_add(t, "<ul class=\"legend\">");
}

void legend_line(text_buffer *t, int series, const char *format, ...) {
    char text[400];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    text_add(
        t,
        "<li><svg class=\"key\" aria-hidden=\"true\" viewBox=\"0 0 34 12\"><path class=\"line s%d\" d=\"M1 6H33\"/>"
        "</svg>",
        series);
    html_text(t, text);
    text_add(t, "</li>");
}

void legend_dot(text_buffer *t, int series, bool hollow, const char *text) {
    text_add(
        t,
        "<li><svg class=\"key small\" aria-hidden=\"true\" viewBox=\"0 0 12 12\"><circle class=\"%s s%d\" cx=\"6\" "
        "cy=\"6\" r=\"4\"/></svg>",
        hollow ? "hollow" : "dot", series);
    html_text(t, text);
    text_add(t, "</li>");
}

void legend_end(text_buffer *t) {
    text_add(t, "</ul>\n");
}
