/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers to and from text, independent of the locale, and UTF-8 checks. */
#ifndef DPMF_BASE_TEXT_H
#define DPMF_BASE_TEXT_H

#include "base/status.h"

/*
 * The whole of text[0..length) as a finite decimal number (digits, point, exponent; no hex, inf, nan, spaces):
 * 1 and *out, or 0.
 */
int base_parse_double(const char *text, size_t length, double *out);

/* The same form, of any size. */
int base_is_decimal(const char *text, size_t length);

/* The same for a whole number; 1e6 and 1.5e3 are whole numbers too. 0 if it is not whole or outside +-2^53. */
int base_parse_integer(const char *text, size_t length, int64_t *out);

/* Shortest of %.15g, %.16g, %.17g that reads back to the same double, with '.' as the point. Finite values only. */
void base_format_double(double value, char out[32]);

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
