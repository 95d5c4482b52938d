/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: one HTML page about a mechanism file. The page appears when it is complete. */
#include "options/verbs.h"
#include "problem.h"
#include "progress.h"
#include "report/report.h"

#include <stdio.h>
#include <string.h>

static int make_page(report *r, text_buffer *t) {
    char title[300];
    int code = report_gather(r);
    if (code == 0) code = report_compare(r);
    if (code != 0) return code;
    snprintf(title, sizeof title, "%.200s: %s mechanism, dpmf report", r->name, dpmf_strategy_family(r->strategy));
    page_begin(t, title);
    section_head(r, t);
    section_figures(r, t);
    section_comparison(r, t);
    code = section_matrices(r, t);
    section_steps(r, t);
    section_sweeps(r, t);
    section_curve(r, t);
    section_cost(r, t);
    section_assumptions(r, t);
    section_foot(r, t);
    page_end(t);
    return code;
}

static int report_on_stream(const arguments *given) {
    text_buffer t = {0};
    int code = report_stream(given, &t);
    if (code == 0) code = page_write(given->text[OPTION_OUT], &t);
    text_free(&t);
    return code;
}

int cmd_report(const arguments *given) {
    report r = {.given = given, .run = run_with((int)given->count[OPTION_THREADS])};
    text_buffer t = {0};
    if (!option_given(given, OPTION_OUT)) return fail(EXIT_USAGE, "--out is required: -o PAGE.html, the page to write");
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* until page_write */
    if (option_given(given, OPTION_MECHANISM)) return report_on_stream(given);
    const char *slash = strrchr(given->operand, '/');
    r.name = slash != NULL ? slash + 1 : given->operand;
    int code = load_confirmed(given->operand, (int)given->count[OPTION_THREADS], &r.mechanism);
    if (code == 0) code = make_page(&r, &t);
    if (code == 0) code = page_write(given->text[OPTION_OUT], &t);
    text_free(&t);
    report_free(&r);
    return code;
}
