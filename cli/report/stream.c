/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report STREAM: the released totals with their bands, ranges with their intervals, and what is promised. */
#include "released.h"
#include "report/html.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct banded {
    double *lower, *upper;
} banded;

static int fill_bands(const arguments *given, const released *r, banded *b) {
    double times = 0.0;
    dpmf_status status = dpmf_query_multiplier(given->number[OPTION_LEVEL], r->lines, &times);
    if (status != DPMF_OK) return fail_status(status, NULL);
    b->lower = allocate(r->lines, sizeof(double));
    b->upper = allocate(r->lines, sizeof(double));
    if (b->lower == NULL || b->upper == NULL) return fail_memory();
    for (int64_t t = 0; t < r->lines; ++t) {
        b->lower[t] = r->total[t] - times * r->error[t];
        b->upper[t] = r->total[t] + times * r->error[t];
    }
    return 0;
}

static void picture_totals(const arguments *given, const released *r, const banded *b, text_buffer *t) {
    plot p = {.x = axis_start("line", false), .y = axis_start("released total", false)};
    axis_cover(&p.x, 0.0);
    axis_cover(&p.x, (double)(r->lines - 1));
    for (int64_t i = 0; i < r->lines; ++i) {
        axis_cover(&p.y, b->lower[i]);
        axis_cover(&p.y, b->upper[i]);
    }
    axis_round(&p.x, true);
    axis_round(&p.y, false);
    figure_begin(t);
    plot_begin(&p, t, "released totals and their bands against the lines of the stream");
    plot_sequence(&p, 2, r->lines, b->lower);
    plot_sequence(&p, 2, r->lines, b->upper);
    plot_sequence(&p, 1, r->lines, r->total);
    plot_end(&p);
    legend_begin(t);
    legend_line(t, 1, "released");
    legend_line(t, 2, "bands that hold for all lines together, level %g", given->number[OPTION_LEVEL]);
    legend_end(t);
    figure_caption(t, "Totals of %lld lines; where the bands cannot be seen they are narrower than the line.",
                   (long long)r->lines);
    figure_end(t);
}

static int add_range(const released *r, const char *text, double times, text_buffer *t) {
    span plus = {0};
    const span none = {0};
    double deviation = 0.0;
    char number[NUMBER];
    int code = released_span(r, "--range", text, &plus);
    if (code == 0) code = released_deviation(r, plus, none, &deviation);
    if (code != 0) return code;
    const double estimate = released_sum(r, plus),
                 shown[] = {estimate, deviation, estimate - times * deviation, estimate + times * deviation};
    text_add(t, "<tr><th scope=\"row\">");
    html_text(t, text);
    text_add(t, "</th>");
    for (int i = 0; i < 4; ++i)
        text_add(t, "<td class=\"num\">%s</td>", pretty(shown[i], 6, number));
    text_add(t, "</tr>\n");
    return 0;
}

static int section_ranges(const arguments *given, const released *r, text_buffer *t) {
    char heads[] = "lines|#estimate|#standard deviation|#lower|#upper", *list = NULL;
    double times = 0.0;
    int code = 0;
    if (!option_given(given, OPTION_RANGE)) return 0;
    dpmf_status status = dpmf_query_multiplier(given->number[OPTION_LEVEL], 1, &times);
    if (status != DPMF_OK) return fail_status(status, NULL);
    list = strdup(given->text[OPTION_RANGE]);
    if (list == NULL) return fail_memory();
    section_begin(
        t, "ranges", "Ranges",
        "Sums over some lines, both ends included. Deviations are exact, and each interval holds separately.");
    table_begin(t, "ranges with their intervals", heads);
    for (char *rest = NULL, *part = strtok_r(list, ",", &rest); part != NULL && code == 0;
         part = strtok_r(NULL, ",", &rest))
        code = add_range(r, part, times, t);
    table_end(t);
    section_end(t);
    free(list);
    return code;
}

static void section_promise(const arguments *given, const released *r, text_buffer *t) {
    char epsilon[NUMBER], delta[NUMBER], count[NUMBER], clip[NUMBER];
    section_begin(t, "statement", "Guarantee", NULL);
    text_add(t, "<div class=\"statement\"><p>");
    if (dpmf_mechanism_epsilon(r->mechanism) > 0.0)
        text_add(t, "The %s lines together are (%s, %s)-differentially private", pretty_count(r->lines, count),
                 pretty(dpmf_mechanism_epsilon(r->mechanism), 4, epsilon),
                 pretty(dpmf_mechanism_delta(r->mechanism), 3, delta));
    else
        text_add(t, "No guarantee is claimed: the mechanism is not calibrated. The %s lines have noise",
                 pretty_count(r->lines, count));
    text_add(t, " for units that each add at most %s to a line, in l2 norm, and take part as <code>",
             pretty(given->number[OPTION_CLIP], 6, clip));
    html_text(t, dpmf_participation_text(dpmf_mechanism_participation(r->mechanism)));
    text_add(t,
             "</code> describes, under <code>%s</code> adjacency.</p><p>Mechanism: <code>%s</code>, digest "
             "<code>%.16s…</code>. Everything on this page is computed from the released lines and the mechanism; it "
             "costs no privacy.</p></div>\n",
             dpmf_adjacency_name(dpmf_mechanism_adjacency(r->mechanism)), dpmf_strategy_family(r->strategy),
             dpmf_mechanism_digest(r->mechanism));
    section_end(t);
}

static int write_sections(const arguments *given, const released *r, text_buffer *t) {
    banded b = {0};
    int code = fill_bands(given, r, &b);
    if (code == 0) {
        page_begin(t, "A private stream, dpmf report");
        text_add(t, "<header><h1>");
        html_text(t, given->operand);
        text_add(t, "</h1></header>\n<main>\n");
        section_promise(given, r, t);
        section_begin(t, "totals", "Totals", "The released running sums.");
        picture_totals(given, r, &b, t);
        section_end(t);
        code = section_ranges(given, r, t);
        text_add(t, "</main>\n<footer><p>Made by dpmf %s.</p></footer>\n", dpmf_version());
        page_end(t);
    }
    free(b.lower);
    free(b.upper);
    return code;
}

int report_stream(const arguments *given, text_buffer *t) {
    released r = {0};
    int code = released_read(given, &r);
    if (code == 0) code = write_sections(given, &r, t);
    released_free(&r);
    return code;
}
