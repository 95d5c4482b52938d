/* SPDX-License-Identifier: Apache-2.0 */
/* Dates of the Gregorian calendar, in ISO 8601. Times are taken as they are written: their zone is read and not applied. */
#ifndef DPMF_CLI_CALENDAR_H
#define DPMF_CLI_CALENDAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum period { PERIOD_HOUR, PERIOD_DAY, PERIOD_WEEK, PERIOD_MONTH, PERIOD_EVER, PERIOD_TOTAL } period;

/* "hour", "day", "week", "month", "ever"; false for any other word. */
bool period_read(const char *text, period *out);

/* Days, both included, counted from 1 January 1970. `hour`: 0 to 23, or -1 where none is written. */
typedef struct day_span {
    int64_t first, last;
    int hour;
} day_span;

/* 2024-02-29, 20240229, 2024-02 (the month), 2024-02-29T17:05:00.5+01:00, also with a space in place of the T. */
bool calendar_read(const char *text, size_t length, day_span *out);

/* 2024-02-01:2024-02-29, 2024-02 or one day. */
bool calendar_read_range(const char *text, size_t length, day_span *out);

/* The number of the period that the hour of this day is in: of hours and days since 1970, of weeks from Monday, of months. */
int64_t calendar_period(period p, int64_t day, int hour);

/* The first day of a period, and its name: 2024-02-29T17, 2024-02-29, the Monday of a week, 2024-02. */
int64_t calendar_begin(period p, int64_t number);
enum { PERIOD_NAME = 32 };
const char *calendar_name(period p, int64_t number, char out[PERIOD_NAME]);

int calendar_weekday(int64_t day); /* Monday is 0 */

/* The most periods of kind `p` that `count` lines of kind `line` one after the other can touch. */
int64_t calendar_touched(period p, period line, int64_t count);

/* Does a line of this kind always lie within one period `p`? */
bool calendar_nested(period line, period p);

#endif
