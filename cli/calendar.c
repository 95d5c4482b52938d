/* SPDX-License-Identifier: Apache-2.0 */
#include "calendar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t divide_down(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

/* Months are counted from January 1970; years begin in March here, so that the leap day is their last. */
static int64_t first_of_month(int64_t month) {
    const int64_t from_march = month - 2, year = 1970 + divide_down(from_march, 12);
    const int64_t in_year = from_march - 12 * divide_down(from_march, 12);
    return 365 * year + divide_down(year, 4) - divide_down(year, 100) + divide_down(year, 400) +
           (153 * in_year + 2) / 5 - 719468;
}

static int64_t month_of(int64_t day) {
    int64_t month = divide_down(12 * day, 366) - 1; /* near, and never after it for days since 1970 */
    if (day < 0) month = divide_down(12 * day, 365) - 2;
    while (first_of_month(month + 1) <= day)
        month++;
    return month;
}

int64_t calendar_period(period p, int64_t day, int hour) {
    if (p == PERIOD_HOUR) return 24 * day + (hour > 0 ? hour : 0);
    if (p == PERIOD_WEEK) return divide_down(day + 3, 7); /* 1 January 1970 is a Thursday */
    return p == PERIOD_MONTH ? month_of(day) : p == PERIOD_DAY ? day : 0;
}

int64_t calendar_begin(period p, int64_t number) {
    if (p == PERIOD_HOUR) return divide_down(number, 24);
    if (p == PERIOD_WEEK) return 7 * number - 3;
    return p == PERIOD_MONTH ? first_of_month(number) : number;
}

int calendar_weekday(int64_t day) {
    return (int)(day + 3 - 7 * divide_down(day + 3, 7));
}

const char *calendar_name(period p, int64_t number, char out[PERIOD_NAME]) {
    const int64_t day = calendar_begin(p, number), month = month_of(day), year = 1970 + divide_down(month, 12);
    const int used =
        snprintf(out, PERIOD_NAME, "%04" PRId64 "-%02d", year, (int)(month - 12 * divide_down(month, 12)) + 1);
    if (p == PERIOD_MONTH) return out;
    snprintf(out + used, PERIOD_NAME - (size_t)used, "-%02d", (int)(day - first_of_month(month)) + 1);
    if (p == PERIOD_HOUR) snprintf(out + strlen(out), 4, "T%02d", (int)(number - 24 * day));
    return out;
}

bool period_read(const char *text, period *out) {
    static const char *const names[PERIOD_TOTAL] = {"hour", "day", "week", "month", "ever"};
    for (int i = 0; i < PERIOD_TOTAL; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (period)i;
            return true;
        }
    return false;
}

/* ---- texts ---- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static bool take(cursor *c, const char *letters) {
    if (c->at == c->end || *c->at == '\0' || strchr(letters, *c->at) == NULL) return false;
    c->at++;
    return true;
}

/* Exactly this many digits, from low to high. */
static bool take_number(cursor *c, int digits, int low, int high, int *out) {
    *out = 0;
    for (int i = 0; i < digits; i++, c->at++) {
        if (c->at == c->end || *c->at < '0' || *c->at > '9') return false;
        *out = 10 * *out + (*c->at - '0');
    }
    return *out >= low && *out <= high;
}

/* HH[:MM[:SS[.f]]] and a zone or none; colons may be missing. */
static bool take_time(cursor *c, int *hour) {
    int number = 0;
    if (!take_number(c, 2, 0, 23, hour)) return false;
    for (int i = 0; i < 2 && c->at < c->end && strchr("Z+-.,", *c->at) == NULL; i++) {
        take(c, ":");
        if (!take_number(c, 2, 0, i == 0 ? 59 : 60, &number)) return false;
    }
    if (take(c, ".,")) do
            if (!take_number(c, 1, 0, 9, &number)) return false;
        while (c->at < c->end && *c->at >= '0' && *c->at <= '9');
    if (take(c, "+-")) {
        if (!take_number(c, 2, 0, 23, &number)) return false;
        if (c->at < c->end) {
            take(c, ":");
            if (!take_number(c, 2, 0, 59, &number)) return false;
        }
    } else {
        take(c, "Z");
    }
    return c->at == c->end;
}

bool calendar_read(const char *text, size_t length, day_span *out) {
    cursor c = {text, text + length};
    int year = 0, month = 0, day = 0, hour = -1;
    if (!take_number(&c, 4, 1, 9999, &year)) return false;
    const bool dashes = take(&c, "-");
    if (!take_number(&c, 2, 1, 12, &month)) return false;
    const int64_t number = 12 * ((int64_t)year - 1970) + month - 1, first = first_of_month(number);
    const int64_t days = first_of_month(number + 1) - first;
    if (c.at == c.end && dashes) {
        *out = (day_span){first, first + days - 1, -1};
        return true;
    }
    if (dashes != take(&c, "-") || !take_number(&c, 2, 1, (int)days, &day)) return false;
    if (c.at < c.end && (!take(&c, "Tt ") || !take_time(&c, &hour))) return false;
    *out = (day_span){first + day - 1, first + day - 1, hour};
    return true;
}

bool calendar_read_range(const char *text, size_t length, day_span *out) {
    const char *colon = memchr(text, ':', length);
    day_span last;
    if (colon == NULL) return calendar_read(text, length, out) && out->hour < 0;
    if (!calendar_read(text, (size_t)(colon - text), out) || out->hour >= 0) return false;
    if (!calendar_read(colon + 1, length - (size_t)(colon + 1 - text), &last) || last.hour >= 0) return false;
    out->last = last.last;
    return out->first <= out->last;
}

/* ---- lines and windows ---- */

bool calendar_nested(period line, period p) {
    return p >= line && !(line == PERIOD_WEEK && p == PERIOD_MONTH);
}

/* The worst beginning is the end of a period; months have at least 28 days, and all beginnings repeat after 400 years. */
int64_t calendar_touched(period p, period line, int64_t count) {
    int64_t most = 1;
    if (p == PERIOD_EVER || count == 1) return 1;
    if (p == line) return count;
    const int64_t lines_of_day = line == PERIOD_HOUR ? 24 : 1,
                  days = (count - 2) / lines_of_day + 1; /* after the first */
    if (p == PERIOD_DAY) return days + 1;
    if (p == PERIOD_WEEK) return (days - 1) / 7 + 2;
    for (int64_t month = 0; month < 4800; month++) {
        const int64_t last = first_of_month(month + 1) - 1;
        const int64_t touched = month_of(last + days) - month + 1;
        if (touched > most) most = touched;
    }
    return most;
}
