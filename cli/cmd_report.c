/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: one HTML page about a mechanism file or a stream, or the JSON object that the page is drawn from. */
#include "options/verbs.h"
#include "problem.h"
#include "progress.h"
#include "report/report.h"

#include <string.h>

static int report_mechanism(const arguments *given, page *p) {
    report r = {.given = given, .run = run_with((int)given->count[OPTION_THREADS])};
    const char *slash = strrchr(given->operand, '/');
    r.name = slash != NULL ? slash + 1 : given->operand;
    int code = load_confirmed(given->operand, (int)given->count[OPTION_THREADS], &r.mechanism);
    if (code == 0) code = report_gather(&r);
    if (code == 0) code = report_compare(&r);
    if (code == 0) code = report_object(&r, &p->object);
    if (code == 0) {
        text_add(&p->title, "%.200s: %s mechanism, dpmf report", r.name, dpmf_strategy_get(r.strategy).family);
        report_plain(&r, &p->plain);
    }
    report_free(&r);
    return code;
}

int cmd_report(const arguments *given) {
    page p = {0};
    const bool out = option_given(given, OPTION_OUT), json = option_given(given, OPTION_JSON);
    if (!out && !json)
        return fail(EXIT_USAGE, "--out is required: -o PAGE.html, the page to write, or --json for its figures");
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* until page_write */
    int code = option_given(given, OPTION_MECHANISM) ? report_stream(given, &p) : report_mechanism(given, &p);
    if (code == 0 && out) code = page_write(&p, given->text[OPTION_OUT]);
    if (code == 0 && json) code = page_print_object(&p);
    page_free(&p);
    return code;
}
