/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: the error of each step, and delta against epsilon. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- step by step ---- */

static void step_numbers(const report *r, text_buffer *t) {
    enum { ROWS = 16 };
    details_begin(t, r->best != NULL ? "#step|#this file|#optimum" : "#step|#this file");
    int64_t rows = r->steps < ROWS ? r->steps : ROWS;
    for (int64_t i = 0; i < rows; ++i) {
        int64_t step = rows > 1 ? (int64_t)((double)(r->steps - 1) * (double)i / (double)(rows - 1)) : 0;
        double values[] = {(double)step, r->per_step[step], r->best != NULL ? r->best[step] : 0.0};
        details_row(t, r->best != NULL ? 3 : 2, values);
    }
    details_end(t);
}

static const char *noise_title(const report *r) {
    return r->sigma > 0.0 ? "noise of the output" : "noise of the output, σ = 1";
}

static void steps_axis(const report *r, plot *p) {
    p->x = axis_start("step", false);
    p->x.whole = true;
    p->x.low = 0.0;
    p->x.high = r->steps > 1 ? (double)(r->steps - 1) : 1.0;
}

static void picture_steps(const report *r, text_buffer *t) {
    plot p = {.y = axis_start(noise_title(r), false)};
    double bound = r->least_proven, rms = r->scale * r->held.rms_loss;
    char text[NUMBER];
    steps_axis(r, &p);
    for (int64_t i = 0; i < r->steps; ++i)
        axis_cover(&p.y, r->per_step[i]);
    for (int64_t i = 0; r->best != NULL && i < r->steps; ++i)
        axis_cover(&p.y, r->best[i]);
    axis_round(&p.y, true);
    figure_begin(t);
    plot_begin(&p, t,
               "Standard deviation of the noise in the output of each step, of this mechanism and of the optimum");
    if (bound > 0.0) plot_level(&p, 3, bound);
    if (r->best != NULL) plot_sequence(&p, 2, r->steps, r->best);
    plot_sequence(&p, 1, r->steps, r->per_step);
    plot_end(&p);
    legend_begin(t);
    legend_line(t, 1, "this file, RMS %s", pretty(rms, 5, text));
    if (r->best != NULL) legend_line(t, 2, "%s, RMS %s", r->best_name, pretty(r->best_rms, 5, text));
    if (bound > 0.0)
        legend_line(t, 3, "RMS that no mechanism%s can beat: %s (lower bound)", r->sampled ? " without sampling" : "",
                    pretty(bound, 5, text));
    legend_end(t);
    figure_caption(
        t,
        "Standard deviation of the noise in what each step publishes or trains with, clip norm 1. Kind of this "
        "file's figures: %s.",
        dpmf_kind_name(r->held.sensitivity.kind));
    step_numbers(r, t);
    figure_end(t);
}

static void picture_step_ratio(const report *r, text_buffer *t) {
    double *ratio = allocate(r->steps, sizeof *ratio);
    if (ratio == NULL) {
        t->failed = true;
        return;
    }
    plot p = {.y = axis_start("this file / optimum", false)};
    steps_axis(r, &p);
    axis_cover(&p.y, 1.0);
    for (int64_t i = 0; i < r->steps; ++i) {
        ratio[i] = r->best[i] > 0.0 ? r->per_step[i] / r->best[i] : NAN;
        axis_cover(&p.y, ratio[i]);
    }
    axis_round(&p.y, false);
    figure_begin(t);
    plot_begin(&p, t, "Noise of each step over that of the optimum at the same step");
    plot_level(&p, 2, 1.0);
    plot_sequence(&p, 1, r->steps, ratio);
    plot_end(&p);
    legend_begin(t);
    legend_line(t, 1, "this file over the optimum");
    legend_line(t, 2, "the optimum");
    legend_end(t);
    figure_caption(
        t, "The same, divided step by step. The optimum is the best for the RMS over all steps, so single steps may "
           "lie below 1.");
    figure_end(t);
    free(ratio);
}

static void optimum_words(const report *r, text_buffer *t) {
    char text[NUMBER];
    bool single = dpmf_participation_is_single(r->participation);
    text_add(t, "<p>");
    if (r->best == NULL) {
        html_text(
            t, r->least_proven > 0.0
                   ? "The optimum's own curve is not drawn for this many steps or this participation; the line shows "
                     "the proven lower bound on the RMS."
                   : "No optimum is drawn: none is known, or it would take too long, for this setting.");
    } else {
        text_add(t, "The optimum: ");
        html_text(t, r->best_name);
        if (isfinite(r->best_gap))
            text_add(t, ", proven to be within %s %% of the least RMS of its class",
                     pretty(100.0 * r->best_gap, 2, text));
        if (r->best_scope[0] != '\0') {
            text_add(t, " (");
            html_text(t, r->best_scope);
            text_add(t, ")");
        }
        text_add(t, ". ");
        if (!single)
            html_text(t, "With several participations of one unit, mechanisms outside that class may do better, "
                         "including this file's.");
    }
    text_add(t, "</p>\n");
}

void section_steps(const report *r, text_buffer *t) {
    section_begin(t, "steps", "Step by step, beside the optimum", NULL);
    if (r->per_step == NULL) {
        text_add(t, "<p>The errors of single steps could not be computed; the notes below give the reason.</p>\n");
        section_end(t);
        return;
    }
    if (r->best != NULL) optimum_words(r, t);
    text_add(t, "<div class=\"pair\">\n");
    picture_steps(r, t);
    if (r->best != NULL) {
        picture_step_ratio(r, t);
    } else {
        text_add(t, "<div>");
        optimum_words(r, t);
        text_add(t, "</div>");
    }
    text_add(t, "</div>\n");
    section_end(t);
}

/* ---- delta against epsilon ---- */

static void picture_curve(const report *r, text_buffer *t) {
    plot p = {.x = axis_start("epsilon ε", false), .y = axis_start("delta δ", true)};
    char mark[80], text[NUMBER];
    bool known = r->sampled && r->curve_known[0] > 0.0;
    for (int i = 0; i < r->curve_points; ++i) {
        axis_cover(&p.x, r->curve_epsilon[i]);
        axis_cover(&p.y, r->curve_delta[i]);
    }
    axis_cover(&p.x, r->privacy.epsilon);
    axis_cover(&p.y, r->delta);
    if (known) /* only where it does not press the curve itself flat */
        known = r->curve_known[r->curve_points - 1] < 6.0 * r->curve_epsilon[r->curve_points - 1];
    for (int i = 0; known && i < r->curve_points; ++i)
        axis_cover(&p.x, r->curve_known[i]);
    axis_round(&p.x, true);
    axis_round(&p.y, false);
    figure_begin(t);
    plot_begin(&p, t, "delta, logarithmic, against epsilon for this mechanism");
    if (known) plot_line(&p, 2, r->curve_points, r->curve_known, r->curve_delta);
    plot_line(&p, 1, r->curve_points, r->curve_epsilon, r->curve_delta);
    plot_dot(&p, 1, r->privacy.epsilon, r->delta, false);
    snprintf(mark, sizeof mark, "ε = %s", pretty(r->privacy.epsilon, 4, text));
    plot_mark(&p, r->privacy.epsilon, r->delta, mark);
    plot_end(&p);
    legend_begin(t);
    legend_line(t, 1, "this file (%s)", dpmf_kind_name(r->privacy.kind));
    if (known) legend_line(t, 2, "the same noise if the sampling were known (upper bound)");
    legend_end(t);
    const char *marked = r->claimed ? "the pair that the file claims" : "the δ chosen for this page";
    if (r->privacy.confidence > 0.0)
        figure_caption(t,
                       "For the one noise multiplier of the file. Each point holds with probability %g over its own "
                       "simulation. Marked: %s.",
                       r->privacy.confidence, marked);
    else
        figure_caption(t, "All pairs on the curve hold at once, for the one noise multiplier of the file. Marked: %s.",
                       marked);
    figure_end(t);
}

static void curve_table(const report *r, text_buffer *t) {
    char text[NUMBER];
    bool known = r->sampled && r->curve_known[0] > 0.0;
    table_begin(t, "epsilon at several delta", known ? "#δ|#ε|#ε, sampling known" : "#δ|#ε|Kind");
    for (int i = 0; i < r->curve_points; i += r->sampled ? 1 : 2) {
        text_add(t, "<tr><td class=\"num\">%s</td>", pretty(r->curve_delta[i], 3, text));
        text_add(t, "<td class=\"num\">%s</td>", pretty(r->curve_epsilon[i], 5, text));
        if (known) {
            text_add(t, "<td class=\"num\">%s</td></tr>\n", pretty(r->curve_known[i], 5, text));
            continue;
        }
        text_add(t, "<td>");
        html_kind(t, r->privacy.kind);
        text_add(t, "</td></tr>\n");
    }
    table_end(t);
}

void section_curve(const report *r, text_buffer *t) {
    section_begin(t, "curve", "Epsilon and delta", NULL);
    if (r->curve_points < 2) {
        text_add(t, "<p>%s</p>\n",
                 r->sigma > 0.0 ? "The curve could not be computed in this setting."
                                : "A mechanism without σ has no curve. Calibrate it, or compute one with <code>dpmf "
                                  "account FILE --sigma S --delta D --curve</code>.");
        section_end(t);
        return;
    }
    text_add(t, "<p class=\"lead\">Method: ");
    html_text(t, r->privacy.method);
    text_add(t, ".</p>\n<div class=\"pair\">\n");
    picture_curve(r, t);
    text_add(t, "<div>");
    curve_table(r, t);
    text_add(t, "</div></div>\n");
    table_parts(r, t);
    section_end(t);
}
