/* SPDX-License-Identifier: Apache-2.0 */
#include "questions.h"

#include "problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTS_MOST ((int64_t)1 << 27) /* numbers of all questions together: 1 GiB */

bool questions_asked(const arguments *given) {
    return option_given(given, OPTION_RANGE) || option_given(given, OPTION_LAST) || option_given(given, OPTION_BY);
}

static int add_question(const released *r, const char *name, questions *q) {
    question *more = realloc(q->of, (size_t)(q->count + 1) * sizeof *more);
    if (more == NULL || (q->count + 1) > WEIGHTS_MOST / r->lines) return fail_memory();
    q->of = more;
    question *const one = &q->of[q->count];
    *one = (question){.weights = allocate(r->lines, sizeof *one->weights)};
    if (one->weights == NULL) return fail_memory();
    q->count++;
    snprintf(one->name, sizeof one->name, "%s", name);
    return 0;
}

static bool has_date(const released *r, int64_t t) {
    return r->when[t].first <= r->when[t].last;
}

static int need_dates(const released *r, const char *name) {
    char shown[SHOWN];
    for (int64_t t = 0; t < r->lines; t++)
        if (!has_date(r, t))
            return fail(EXIT_UNABLE, "%s: line %" PRId64 " of %s has no date (count --time, ISO 8601)", name, t + 1,
                        show("the stream", shown));
    return 0;
}

static void add_lines(question *one, int64_t first, int64_t last, double by) {
    for (int64_t t = first; t <= last; t++)
        one->weights[t - 1] += by;
    one->lines += last - first + 1;
}

/* ---- --range ---- */

static bool is_date(const char *text) {
    return strspn(text, "0123456789") == 4 && text[4] == '-';
}

/* Lines A:B, or the lines of some dates, all of which the stream must have. */
static int add_range(const released *r, const char *text, double by, question *one) {
    char shown[SHOWN], a[PERIOD_NAME], b[PERIOD_NAME];
    day_span asked;
    span lines;
    if (!is_date(text) || !calendar_read_range(text, strlen(text), &asked)) {
        const int code = released_span(r, "--range", text, &lines);
        if (code == 0) add_lines(one, lines.first, lines.last, by);
        return code;
    }
    int code = need_dates(r, "--range");
    if (code != 0) return code;
    const day_span first = r->when[0], last = r->when[r->lines - 1];
    if (asked.first < first.first || asked.last > last.last)
        return fail(EXIT_USAGE, "--range %s: the stream has %s to %s", show(text, shown),
                    calendar_name(PERIOD_DAY, first.first, a), calendar_name(PERIOD_DAY, last.last, b));
    for (int64_t t = 1; t <= r->lines; t++) {
        const day_span *w = &r->when[t - 1];
        const bool within = w->first >= asked.first && w->last <= asked.last;
        if (!within && w->last >= asked.first && w->first <= asked.last)
            return fail(EXIT_USAGE, "--range %s: line %" PRId64 " is longer than a part of it", show(text, shown), t);
        if (within) add_lines(one, t, t, by);
    }
    return one->lines > 0 ? 0 : fail(EXIT_USAGE, "--range %s: the stream has no line there", show(text, shown));
}

/* "X", "A:B-C:D" in lines, or "X minus Y". */
static int add_difference(const released *r, char *text, questions *q) {
    static const char word[] = " minus ";
    char *less = strstr(text, word);
    day_span date;
    int code = add_question(r, text, q);
    if (code != 0) return code;
    question *const one = &q->of[q->count - 1];
    if (less != NULL) {
        *less = '\0';
        less += strlen(word);
    } else if (!is_date(text) || !calendar_read_range(text, strlen(text), &date)) {
        less = strchr(text, '-');
        if (less != NULL) *less++ = '\0';
    }
    code = add_range(r, text, 1.0, one);
    if (code == 0 && less != NULL) code = add_range(r, less, -1.0, one);
    return code;
}

static int add_ranges(const released *r, const char *list, questions *q) {
    char *copy = strdup(list), *rest = NULL;
    int code = copy == NULL ? fail_memory() : 0;
    for (char *part = code == 0 ? strtok_r(copy, ",", &rest) : NULL; part != NULL && code == 0;
         part = strtok_r(NULL, ",", &rest))
        code = add_difference(r, part, q);
    free(copy);
    return code != 0 || q->count > 0 ? code : fail(EXIT_USAGE, "--range: A:B is accepted, or dates");
}

/* ---- --last ---- */

static int add_last(const released *r, const char *text, questions *q) {
    char number[32], shown[SHOWN];
    int64_t count = 0;
    const size_t length = strlen(text);
    const char unit = length > 0 ? text[length - 1] : '\0';
    const bool days = unit == 'd' || unit == 'w';
    snprintf(number, sizeof number, "%.*s", (int)(length - days), text);
    if (length >= sizeof number || !read_count(number, &count) || count < 1 || count > 1000000000)
        return fail(EXIT_USAGE, "--last %s: a number of days, weeks or lines is accepted: 30d, 4w or 30",
                    show(text, shown));
    int code = days ? need_dates(r, "--last") : 0;
    snprintf(number, sizeof number, "last %.20s", text);
    if (code == 0) code = add_question(r, number, q);
    if (code != 0) return code;
    question *const one = &q->of[q->count - 1];
    const int64_t after = days ? r->when[r->lines - 1].last - count * (unit == 'w' ? 7 : 1) : 0;
    const int64_t first = days ? r->when[0].first - 1 : 0;
    if (days ? after < first : count > r->lines)
        return fail(EXIT_USAGE, "--last %s: the stream is shorter", show(text, shown));
    if (!days) add_lines(one, r->lines - count + 1, r->lines, 1.0);
    for (int64_t t = 1; days && t <= r->lines; t++)
        if (r->when[t - 1].first > after) add_lines(one, t, t, 1.0);
    return 0;
}

/* ---- --by ---- */

static const char *group_name(const arguments *given, const day_span *when, char out[PERIOD_NAME]) {
    static const char *const weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                           "Friday", "Saturday", "Sunday"};
    period p = PERIOD_DAY;
    if (!period_read(option_text(given, OPTION_BY), &p)) return weekdays[calendar_weekday(when->first)];
    return calendar_name(p, calendar_period(p, when->first, when->hour), out);
}

/* The lines of one question, or all, in groups by their dates; in the order in which these appear. */
static int split_groups(const arguments *given, const released *r, questions *q) {
    questions groups = {0};
    char name[PERIOD_NAME];
    const bool all = q->count == 0;
    int code = need_dates(r, "--by");
    if (code == 0 && q->count > 1) code = fail(EXIT_USAGE, "--by: with one range, or with none for all lines");
    for (int64_t t = 0; code == 0 && t < r->lines; t++) {
        const double weight = all ? 1.0 : q->of[0].weights[t];
        if (weight == 0.0) continue;
        const char *text = group_name(given, &r->when[t], name);
        int64_t i = groups.count - 1; /* most lines are in the group of the line before */
        while (i >= 0 && strcmp(groups.of[i].name, text) != 0)
            i--;
        if (i < 0) code = add_question(r, text, &groups);
        if (i < 0) i = groups.count - 1;
        if (code == 0) add_lines(&groups.of[i], t + 1, t + 1, weight);
    }
    questions_free(q);
    *q = groups;
    return code;
}

int questions_make(const arguments *given, const released *r, questions *q) {
    const double level = given->number[OPTION_LEVEL];
    int code = 0;
    if (strcmp(dpmf_workload_get(r->workload).text, "prefix") != 0)
        return fail(EXIT_UNABLE, "the stream's workload is %s; running sums (prefix) are accepted for ranges",
                    dpmf_workload_get(r->workload).text);
    if (option_given(given, OPTION_RANGE)) code = add_ranges(r, given->text[OPTION_RANGE], q);
    if (code == 0 && option_given(given, OPTION_LAST)) code = add_last(r, given->text[OPTION_LAST], q);
    if (code == 0 && option_given(given, OPTION_BY)) code = split_groups(given, r, q);
    for (int64_t i = 0; code == 0 && i < q->count; i++)
        code = released_deviation(r, q->of[i].weights, &q->of[i].deviation);
    if (code != 0) return code;
    dpmf_status status = dpmf_query_multiplier(level, 1, &q->alone);
    if (status != DPMF_OK) return fail_status(status, NULL);
    return together_multiplier(r, q->count, q->of, level, r->columns, &q->together, &q->simulated);
}

void questions_free(questions *q) {
    for (int64_t i = 0; i < q->count; i++)
        free(q->of[i].weights);
    free(q->of);
    *q = (questions){0};
}
