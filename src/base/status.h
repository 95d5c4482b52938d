/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status and message: every function that can fail returns a dpmf_status; the text is thread-local. Besides: numbers to and
 * from text, independent of the locale, and UTF-8 checks.
 *
 * House style: functions that own something have one `done:` label; TRY_DONE jumps to it. `status` is the local name.
 */
#ifndef DPMF_BASE_STATUS_H
#define DPMF_BASE_STATUS_H

#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

/* Sets this thread's message and returns `status`. Name the value and the accepted range. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), cold))
#endif
dpmf_status
base_fail(dpmf_status status, const char *format, ...);

enum { BASE_MESSAGE_SIZE = 1024 }; /* of the thread's message: a path of a few hundred bytes and a sentence about it */

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        dpmf_status try_status_ = (call);                                                                              \
        if (try_status_ != DPMF_OK) return try_status_;                                                                \
    } while (0)

#define TRY_DONE(call)                                                                                                 \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != DPMF_OK) goto done;                                                                              \
    } while (0)

/* Calls the progress function; DPMF_ERROR_CANCELLED if it wants to stop. `run` may be NULL. */
dpmf_status base_progress(const dpmf_run *run, const char *what, double done);

/* All of text[0..length) as a finite decimal number (digits, point, exponent; no hex, inf, nan, spaces): 1 and *out, or 0. */
int base_parse_double(const char *text, size_t length, double *out);

/* The same form, of any size. */
int base_is_decimal(const char *text, size_t length);

/* The same for a whole number; 1e6 and 1.5e3 are whole numbers too. 0 if it is not whole or outside +-2^53. */
int base_parse_integer(const char *text, size_t length, int64_t *out);

/* Shortest of %.15g, %.16g, %.17g that reads back to the same double, with '.' as the point. Finite values only. */
void base_format_double(double value, char out[32]);

/* The nearest number of `digits` digits, as %.*g prints them, that is not below (side 1) or not above (-1) the value. */
double base_safe_digits(double value, int digits, int side);

/* Is text[0..length) valid UTF-8 (no overlong forms, no surrogates)? */
int base_utf8_valid(const uint8_t *text, size_t length);

/* `text` cut to what an error message can show: at most 60 bytes, unprintable bytes as '?'. Returns `out`. */
const char *base_show(const char *text, size_t length, char out[64]);

/* A text made piece by piece. What does not fit in `size` is left out, but `length` counts it. */
typedef struct base_text {
    char *out; /* always ends with a 0 if size > 0: begin with out[0] = 0 */
    size_t size, length;
} base_text;
__attribute__((format(printf, 2, 3))) void base_text_add(base_text *text, const char *format, ...);

#endif
