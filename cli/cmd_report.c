/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: one HTML page about a mechanism file or a stream, or the JSON object that the page is drawn from. */
#include "options/verbs.h"
#include "output.h"
#include "problem.h"
#include "questions.h"
#include "report/report.h"

#include <stdlib.h>
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

/* dpmf report STREAM: the released totals with their bands, ranges with their intervals, and what is promised. */

static int add_totals(const arguments *given, const released *r, page *p) {
    double times = 0.0;
    int64_t simulated = 0;
    int code = together_totals(r, given->number[OPTION_LEVEL], &times, &simulated);
    if (code != 0) return code;
    double *lower = allocate(r->lines, sizeof *lower), *upper = allocate(r->lines, sizeof *upper);
    code = lower == NULL || upper == NULL ? fail_memory() : 0;
    if (code == 0) {
        for (int64_t i = 0; i < r->lines; ++i) {
            lower[i] = r->total[i] - times * r->error[i];
            upper[i] = r->total[i] + times * r->error[i];
        }
        json_sequence(&p->object, "total", r->lines, r->total);
        json_sequence(&p->object, "lower", r->lines, lower);
        json_sequence(&p->object, "upper", r->lines, upper);
        const sequence curves[] = {{"released", r->total}, {"lower end", lower}, {"upper end", upper}};
        plain_picture(&p->plain, "Released totals and their bands against the lines of the stream", r->lines, false, 3,
                      curves);
    }
    free(lower);
    free(upper);
    return code;
}

static void add_range(const released *r, const question *one, double times, page *p) {
    const double estimate = released_sum(r, 0, one->weights), deviation = one->deviation;
    const double lower = estimate - times * deviation, upper = estimate + times * deviation;
    json_open(&p->object, NULL, '{');
    json_text(&p->object, "range", one->name);
    json_integer(&p->object, "lines", one->lines);
    json_double(&p->object, "estimate", estimate);
    json_double(&p->object, "deviation", deviation);
    json_double(&p->object, "lower", lower);
    json_double(&p->object, "upper", upper);
    json_close(&p->object, '}');
    text_add(&p->plain, "<tr><th scope=\"row\">");
    html_text(&p->plain, one->name);
    text_add(&p->plain, "</th><td>%.6g</td><td>%.6g</td><td>%.6g</td><td>%.6g</td></tr>\n", estimate,
             safe_digits(deviation, 6, 1), safe_digits(lower, 6, -1), safe_digits(upper, 6, 1));
}

static int add_ranges(const arguments *given, const released *r, page *p) {
    questions q = {0};
    int code = 0;
    json_open(&p->object, "ranges", '[');
    if (questions_asked(given)) {
        code = questions_make(given, r, &q);
        if (code == 0) plain_table(&p->plain, "lines|estimate|standard deviation|lower|upper");
        for (int64_t i = 0; code == 0 && i < q.count; i++)
            add_range(r, &q.of[i], q.alone, p);
        if (code == 0) plain_table_end(&p->plain);
    }
    json_close(&p->object, ']');
    questions_free(&q);
    return code;
}

static int report_stream(const arguments *given, page *p) {
    released r = {0};
    run_guarantee g = {0};
    text_buffer statement = {0}, *t = &p->object;
    int code = released_read(given, &r);
    if (code == 0 && r.columns > 1) code = fail(EXIT_USAGE, "--column: one is accepted, a page has one stream");
    if (code == 0) code = state_run(given, r.mechanism, given->number[OPTION_CLIP], r.lines, &g);
    if (code == 0) {
        text_add(
            &statement,
            "%sEverything on this page is computed from the released lines and the mechanism; it costs no privacy.",
            g.statement);
        text_add(&p->title, "A private stream, dpmf report");
        json_begin(t);
        json_text(t, "page", "stream");
        json_text(t, "name", given->operand);
        json_text(t, "statement", statement.bytes != NULL ? statement.bytes : "");
        json_protected(t, &g.how);
        json_integer(t, "lines", r.lines);
        json_text(t, "family", dpmf_strategy_get(r.strategy).family);
        json_text(t, "participation", dpmf_participation_get(dpmf_mechanism_get(r.mechanism).participation).text);
        json_text(t, "adjacency", dpmf_adjacency_name(dpmf_mechanism_get(r.mechanism).adjacency));
        json_text(t, "digest", dpmf_mechanism_get(r.mechanism).digest);
        json_double(t, "clip", given->number[OPTION_CLIP]);
        json_double(t, "level", given->number[OPTION_LEVEL]);
        json_known(t, "epsilon", dpmf_mechanism_get(r.mechanism).epsilon);
        json_known(t, "delta", dpmf_mechanism_get(r.mechanism).delta);
        text_add(&p->plain, "<h1>");
        html_text(&p->plain, given->operand);
        text_add(&p->plain, "</h1>\n<section>\n");
        plain_paragraphs(&p->plain, statement.bytes != NULL ? statement.bytes : "");
        t->failed = t->failed || statement.failed;
        code = add_totals(given, &r, p);
        if (code == 0) code = add_ranges(given, &r, p);
        text_add(&p->plain, "</section>\n");
        json_close(t, '}');
    }
    text_free(&statement);
    released_free(&r);
    return code;
}

int cmd_report(const arguments *given) {
    page p = {0};
    const bool out = option_given(given, OPTION_OUT), json = option_given(given, OPTION_JSON);
    if (!out && !json)
        return fail(EXIT_USAGE, "--out is required: -o PAGE.html, the page to write, or --json for its figures");
    if (option_given(given, OPTION_UNITS) && option_given(given, OPTION_MECHANISM))
        return fail(EXIT_USAGE, "--units is for the page of a mechanism, and --mechanism for that of a stream");
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* until page_write */
    int code = option_given(given, OPTION_MECHANISM) ? report_stream(given, &p) : report_mechanism(given, &p);
    if (code == 0 && out) code = page_write(&p, option_is(given, OPTION_OUT, "-") ? NULL : given->text[OPTION_OUT]);
    if (code == 0 && json) code = page_print_object(&p);
    page_free(&p);
    return code;
}
