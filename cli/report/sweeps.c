/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: noise against bands and buffers, and what the noise costs. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES = 5, OTHERS = 6 }; /* lines in one picture; and the style of single points */

/* ---- points that belong together ---- */

static bool together(const dpmf_candidate *a, const dpmf_candidate *b) {
    return strcmp(a->family, b->family) == 0 && a->sampling.kind == b->sampling.kind &&
           a->normalized == b->normalized && (a->bands > 0) == (b->bands > 0);
}

typedef struct group {
    const dpmf_candidate *of;
    int64_t count;
    const rival **members; /* sorted along the axis */
} group;

static bool along_bands; /* qsort has no context: which of the two pictures is being made */

static double along(const rival *v) {
    return along_bands ? (double)v->is.bands : (double)v->is.buffers + 1.0;
}

static int by_place(const void *a, const void *b) {
    double x = along(*(const rival *const *)a), y = along(*(const rival *const *)b);
    return x < y ? -1 : x > y;
}

static bool in_picture(const rival *v) {
    return along_bands ? v->is.bands > 0 : true;
}

static bool grouped(const rival *v, const group *groups, int count) {
    for (int k = 0; k < count; ++k)
        if (together(groups[k].of, &v->is)) return true;
    return false;
}

/*
 * Families with points of a search, up to SERIES of them, with the same numbers in both pictures; the others count as
 * single points.
 */
static int make_groups(const report *r, group *groups, const rival **memory) {
    int count = 0;
    for (int64_t i = 0; i < r->rival_count && count < SERIES; ++i) {
        const rival *v = &r->rivals[i];
        group g = {.of = &v->is, .members = memory};
        bool searched = false;
        if (grouped(v, groups, count)) continue;
        for (int64_t k = i; k < r->rival_count; ++k) {
            if (!together(g.of, &r->rivals[k].is)) continue;
            g.members[g.count++] = &r->rivals[k];
            searched = searched || r->rivals[k].is.is_search_point;
        }
        if (!searched) continue;
        qsort(g.members, (size_t)g.count, sizeof *g.members, by_place);
        memory += g.count;
        groups[count++] = g;
    }
    return count;
}

static const char *group_name(const group *g, char out[160]) {
    snprintf(out, 160, "%s%s%s", g->of->family, g->of->normalized ? ", normalized" : "",
             !dpmf_sampling_is_none(&g->of->sampling) ? ", sampled" : "");
    return out;
}

static void cover(const report *r, plot *p, const group *groups, int count) {
    double least = HUGE_VAL;
    for (int64_t i = 0; i < r->rival_count; ++i)
        if (in_picture(&r->rivals[i])) least = fmin(least, r->rivals[i].is.noise_rms);
    for (int64_t i = 0; i < r->rival_count; ++i) {
        const rival *v = &r->rivals[i];
        bool far = v->is.noise_rms > 4.0 * least && !v->own && !grouped(v, groups, count);
        if (!in_picture(v) || far) continue; /* a far single point would press the others together */
        axis_cover(&p->x, along(v));
        axis_cover(&p->y, v->is.noise_rms);
    }
    if (p->y.high > 8.0 * p->y.low) p->y.log = true;
    axis_round(&p->x, false);
    axis_round(&p->y, false);
}

static void draw_group(plot *p, int series, const group *g) {
    for (int64_t i = 0; i + 1 < g->count; ++i) {
        double x[] = {along(g->members[i]), along(g->members[i + 1])};
        double y[] = {g->members[i]->is.noise_rms, g->members[i + 1]->is.noise_rms};
        plot_line(p, series, 2, x, y);
    }
    for (int64_t i = 0; i < g->count; ++i)
        plot_dot(p, series, along(g->members[i]), g->members[i]->is.noise_rms, false);
}

static bool inside(const plot *p, const rival *v) {
    double x = along(v), y = v->is.noise_rms;
    return x >= p->x.low && x <= p->x.high && y >= p->y.low && y <= p->y.high;
}

static void sweep_numbers(const report *r, text_buffer *t) {
    char text[NUMBER], name[160];
    text_add(t, "<details><summary>Numbers of this picture</summary>");
    table_begin(t, "numbers of the picture", "mechanism|#buffers|#noise, RMS");
    for (int64_t i = 0; i < r->rival_count; ++i) {
        if (!in_picture(&r->rivals[i])) continue;
        text_add(t, "<tr><td>");
        html_text(t, rival_name(&r->rivals[i].is, name));
        text_add(t, "</td><td class=\"num\">%s</td>", pretty_count(r->rivals[i].is.buffers, text));
        text_add(t, "<td class=\"num\">%s</td></tr>\n", pretty(r->rivals[i].is.noise_rms, 6, text));
    }
    table_end(t);
    text_add(t, "</details>\n");
}

static void picture_sweep(const report *r, text_buffer *t, const rival **memory) {
    group groups[SERIES];
    char name[160];
    bool single = false, own = false;
    int left_out = 0;
    int count = make_groups(r, groups, memory);
    plot p = {.x = axis_start(along_bands ? "bands" : "buffers + 1", true), .y = axis_start("noise, RMS", false)};
    cover(r, &p, groups, count);
    figure_begin(t);
    plot_begin(&p, t,
               along_bands ? "RMS noise of banded mechanisms against their number of bands"
                           : "RMS noise of mechanisms against the rows of noise that they keep");
    for (int k = 0; k < count; ++k)
        if (in_picture(groups[k].members[0])) draw_group(&p, k + 1, &groups[k]);
    for (int64_t i = 0; i < r->rival_count; ++i) {
        const rival *v = &r->rivals[i];
        if (!in_picture(v)) continue;
        left_out += !inside(&p, v);
        if (!inside(&p, v)) continue;
        if (!grouped(v, groups, count)) plot_dot(&p, OTHERS, along(v), v->is.noise_rms, false), single = true;
        if (v->own) plot_mark(&p, along(v), v->is.noise_rms, "this file"), own = true;
    }
    plot_end(&p);
    legend_begin(t);
    for (int k = 0; k < count; ++k)
        if (in_picture(groups[k].members[0])) legend_line(t, k + 1, "%s", group_name(&groups[k], name));
    if (single) legend_dot(t, OTHERS, false, "one mechanism of another family");
    legend_end(t);
    figure_caption(t, "%s%s%s",
                   along_bands ? "Noise against the diagonals of C that are not zero (of C⁻¹ for bisr)."
                               : "Noise against the rows that a stream keeps in memory, including its own row.",
                   left_out > 0 ? " Single mechanisms with more than four times the least noise are left out." : "",
                   own ? " The ring is the mechanism of this file." : "");
    sweep_numbers(r, t);
    figure_end(t);
}

void section_sweeps(const report *r, text_buffer *t) {
    section_begin(t, "sweeps", "Noise against bands and buffers",
                  r->equal_privacy ? "The gain from more bands or more buffers, all at the same privacy."
                                   : "The gain from more bands or more buffers, all at σ = 1.");
    const rival **memory = allocate(r->rival_count, sizeof *memory);
    bool bands = false;
    for (int64_t i = 0; i < r->rival_count; ++i)
        bands = bands || r->rivals[i].is.bands > 0;
    if (memory == NULL) {
        t->failed = true;
        return;
    }
    text_add(t, "<div class=\"pair\">\n");
    along_bands = true;
    if (bands) picture_sweep(r, t, memory);
    along_bands = false;
    picture_sweep(r, t, memory);
    text_add(t, "</div>\n");
    free((void *)memory);
    section_end(t);
}

/* ---- cost ---- */

/* Memory of the mechanisms of the comparison as bars; lengths are logarithmic, the figures beside them are not. */
static void picture_memory(const report *r, text_buffer *t) {
    enum { ROW = 34, LABEL = 250, BAR = 250, WIDTH = 640, MOST = 14 };
    char text[NUMBER], name[160];
    double least = HUGE_VAL, most = 0.0;
    int rows = 0;
    for (int64_t i = 0; i < r->rival_count; ++i) {
        if (r->rivals[i].is.is_search_point || r->rivals[i].is.memory_bytes == 0 || (rows >= MOST && !r->rivals[i].own))
            continue;
        least = fmin(least, (double)r->rivals[i].is.memory_bytes);
        most = fmax(most, (double)r->rivals[i].is.memory_bytes);
        ++rows;
    }
    if (rows == 0) return;
    double range = log(most / least) + 1.0;
    figure_begin(t);
    text_add(t,
             "<svg role=\"img\" viewBox=\"0 0 %d %d\" aria-label=\"Memory of the noise stream of each mechanism\">\n",
             WIDTH, rows * ROW + 16);
    int row = 0;
    for (int64_t i = 0; i < r->rival_count && row < rows; ++i) {
        const rival *v = &r->rivals[i];
        if (v->is.is_search_point || v->is.memory_bytes == 0 || (row >= MOST && !v->own)) continue;
        double y = 8.0 + ROW * row++, length = BAR * (log((double)v->is.memory_bytes / least) + 1.0) / range;
        text_add(t, "<text class=\"%s\" x=\"%d\" y=\"%.0f\" dy=\".33em\" text-anchor=\"end\">",
                 v->own ? "mark" : "tick", LABEL - 10, y + ROW / 2.0);
        int used = snprintf(name, sizeof name, "%s", v->is.family);
        if (v->is.bands > 0) snprintf(name + used, sizeof name - (size_t)used, " %lld", (long long)v->is.bands);
        html_text(t, name);
        text_add(t, "</text><rect class=\"dot s%d\" x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" rx=\"3\"/>",
                 v->own ? 2 : 1, LABEL, y + 7.0, length, ROW - 14);
        text_add(t, "<text class=\"tick\" x=\"%.1f\" y=\"%.0f\" dy=\".33em\">%s</text>\n", LABEL + length + 8.0,
                 y + ROW / 2.0, pretty_bytes(v->is.memory_bytes, text));
    }
    text_add(t, "</svg>\n");
    figure_caption(t,
                   "Memory of each mechanism's noise stream for rows of %s numbers, float32; the number after a name "
                   "is its bands, the lengths of the bars are logarithmic. This file has the other colour.",
                   pretty_count(r->dim, text));
    figure_end(t);
}

static void cost_row(text_buffer *t, const char *what, const char *value, const char *kind, const char *style) {
    text_add(t, "<tr><th scope=\"row\">%s</th><td class=\"num\">%s</td><td>", what, value);
    html_badge(t, style, kind);
    text_add(t, "</td></tr>\n");
}

static void cost_table(const report *r, text_buffer *t) {
    char text[NUMBER], overhead[NUMBER + 8];
    table_begin(t, "cost of the noise", "This file|#Figure|Kind");
    cost_row(t, "Rows kept (buffers)", pretty_count(dpmf_strategy_buffers(r->strategy), text), "exact", "sure");
    cost_row(t, "Numbers in a row", pretty_count(r->dim, text),
             option_given(r->given, OPTION_DIM) ? "as given"
             : r->designed.dim > 0              ? "as designed"
                                                : "assumed; --dim changes it",
             "");
    if (r->memory > 0) {
        cost_row(t, "Memory, total", pretty_bytes(r->memory, text), "exact", "sure");
        cost_row(t, "of it buffers", pretty_bytes(r->memory_buffers, text), "exact", "sure");
    }
    const dpmf_strategy *s = r->strategy;
    const bool by_step = dpmf_strategy_streams(s) || dpmf_strategy_buffers(s) < dpmf_strategy_steps(s) - 1;
    cost_row(t, "Noise made step by step", by_step ? "yes" : "no, all rows in advance", "exact", "sure");
    if (dpmf_strategy_normals(s) > 1)
        cost_row(t, "Normal numbers per number", pretty(dpmf_strategy_normals(s), 3, text), "exact", "sure");
    for (int64_t i = 0; i < r->rival_count; ++i) {
        const dpmf_candidate *c = &r->rivals[i].is;
        if (!r->rivals[i].own) continue;
        snprintf(overhead, sizeof overhead, "× %s", pretty(c->overhead, 3, text));
        cost_row(t, "Time of a row over that of independent noise", overhead, "by the cost model", "guess");
    }
    table_end(t);
}

void section_cost(const report *r, text_buffer *t) {
    section_begin(t, "cost", "Cost of the noise", NULL);
    text_add(t, "<div class=\"pair\">\n<div>");
    cost_table(r, t);
    text_add(t, "</div>\n");
    picture_memory(r, t);
    text_add(t, "</div>\n");
    section_end(t);
}
