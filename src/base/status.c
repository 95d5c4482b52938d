/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures, the progress callback, memory in the types that we use, and numbers to and from text.
 *
 * Messages are formatted in the "C" locale, so that numbers in them read the same everywhere, and in a buffer of their
 * own, so that an argument may be the current message itself ("reading %s: %s", path, dpmf_last_error()).
 *
 * strtod and printf obey the locale's decimal point. strtod never sees one here: it gets 125e1 for 1.25e3. The bytes
 * that printf writes for the point are replaced by '.'.
 */
#include "base/memory.h"

#include <assert.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dpmf_status base_fail(dpmf_status status, const char *format, ...) {
    char text[BASE_MESSAGE_SIZE + 1]; /* one byte more than is kept, so that a cut is seen */
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t callers = plain != (locale_t)0 ? uselocale(plain) : (locale_t)0;
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
    va_end(arguments);
    if (plain != (locale_t)0) {
        uselocale(callers);
        freelocale(plain);
    }
    dpmf_set_last_error(text);
    return status;
}

dpmf_status base_progress(const dpmf_run *run, const char *what, double done) {
    if (run == NULL || run->progress == NULL || run->progress(run->context, what, done) == 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_CANCELLED, "cancelled by the progress callback while %s", what);
}

dpmf_status base_alloc_doubles(int64_t count, const char *what, double **out) {
    void *memory = NULL;
    TRY(base_alloc(count, sizeof(double), what, &memory));
    *out = memory;
    return DPMF_OK;
}

dpmf_status base_alloc_arrays(const char *what, const base_place *places, size_t count) {
    enum { LINE = 8 }; /* doubles between two aligned places */
    int64_t total = 0;
    double *memory = NULL;
    for (size_t i = 0; i < count && total <= INT64_MAX / 16; i++)
        total += places[i].count / LINE * LINE + LINE;
    TRY(base_alloc_doubles(total, what, &memory));
    for (size_t i = 0; i < count; i++) {
        *places[i].array = memory;
        memory += places[i].count / LINE * LINE + LINE;
    }
    return DPMF_OK;
}

dpmf_status base_copy_text(const char *text, char **out) {
    const size_t size = strlen(text) + 1;
    void *memory = NULL;
    TRY(base_alloc((int64_t)size, 1, "a text", &memory));
    *out = memcpy(memory, text, size);
    return DPMF_OK;
}

/* ---- text ---- */

/* A half-way case between two doubles has at most 767 digits; of the others it matters only whether they are all zero. */
enum { DIGITS_KEPT = 770 };

/* Exponents stop growing here, far beyond the exponent that the digits of any text in memory could compensate. */
#define EXPONENT_ENOUGH ((int64_t)1 << 58)

/* The value is 0.d1 d2 d3... x 10^exponent with d1 != 0, `digits` of them and no trailing zeros; none: it is 0. */
typedef struct decimal {
    int negative;
    int64_t digits;
    int64_t exponent;
    int inexact; /* non-zero digits after those kept */
    char kept[DIGITS_KEPT];
} decimal;

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads the digits on both sides of the point; returns where they end, or NULL if there is none. */
static const char *scan_digits(const char *p, const char *end, decimal *d) {
    int any = 0, after_point = 0;
    for (; p < end; p++) {
        if (*p == '.' && !after_point) {
            after_point = 1;
            continue;
        }
        if (!is_digit(*p)) break;
        any = 1;
        if (d->digits > 0 || *p != '0') {
            if (d->digits < DIGITS_KEPT)
                d->kept[d->digits] = *p;
            else if (*p != '0')
                d->inexact = 1;
            d->digits++;
            d->exponent += !after_point;
        } else {
            d->exponent -= after_point;
        }
    }
    return any ? p : NULL;
}

/* [+-] digits [. digits] [e [+-] digits], all of the text; 1 or 0. */
static int scan_decimal(const char *text, size_t length, decimal *d) {
    const char *p = text, *end = text + length;
    d->negative = 0;
    d->digits = 0;
    d->exponent = 0;
    d->inexact = 0;
    if (p < end && (*p == '+' || *p == '-')) d->negative = *p++ == '-';
    p = scan_digits(p, end, d);
    if (p == NULL) return 0;
    if (p < end && (*p == 'e' || *p == 'E')) {
        int negative = 0;
        int64_t exponent = 0;
        p++;
        if (p < end && (*p == '+' || *p == '-')) negative = *p++ == '-';
        if (p == end) return 0;
        for (; p < end && is_digit(*p); p++)
            if (exponent < EXPONENT_ENOUGH) exponent = 10 * exponent + (*p - '0');
        d->exponent += negative ? -exponent : exponent;
    }
    if (p != end) return 0;
    if (d->digits > DIGITS_KEPT) d->digits = DIGITS_KEPT;
    while (d->digits > 0 && !d->inexact && d->kept[d->digits - 1] == '0')
        d->digits--;
    return 1;
}

int base_is_decimal(const char *text, size_t length) {
    decimal d;
    return scan_decimal(text, length, &d);
}

int base_parse_double(const char *text, size_t length, double *out) {
    decimal d;
    char number[DIGITS_KEPT + 32];
    if (!scan_decimal(text, length, &d)) return 0;
    if (d.digits == 0) {
        *out = d.negative ? -0.0 : 0.0;
        return 1;
    }
    if (d.exponent > 310) return 0; /* at least 10^310: infinite */
    if (d.exponent < -400) d.exponent = -400;
    size_t used = 0;
    number[used++] = d.negative ? '-' : '+';
    memcpy(number + used, d.kept, (size_t)d.digits);
    used += (size_t)d.digits;
    int power = (int)(d.exponent - d.digits);
    if (d.inexact) {
        number[used++] = '1';
        power--;
    }
    int written = snprintf(number + used, sizeof number - used, "e%d", power);
    assert(written > 0 && (size_t)written < sizeof number - used);
    (void)written;
    double value = strtod(number, NULL);
    if (!isfinite(value)) return 0;
    *out = value;
    return 1;
}

int base_parse_integer(const char *text, size_t length, int64_t *out) {
    const int64_t limit = (int64_t)1 << 53; /* every whole number up to here is a double too */
    decimal d;
    if (!scan_decimal(text, length, &d)) return 0;
    if (d.digits == 0) {
        *out = 0;
        return 1;
    }
    if (d.exponent > 16 || d.digits > d.exponent) return 0; /* 10^16 > 2^53; or digits after the point */
    int64_t value = 0;
    for (int64_t i = 0; i < d.exponent; i++)
        value = 10 * value + (i < d.digits ? d.kept[i] - '0' : 0);
    if (value > limit) return 0;
    *out = d.negative ? -value : value;
    return 1;
}

/* Copies printf's number with the locale's point, one byte or several, as one '.'. */
static void copy_with_point(const char *from, char out[32]) {
    size_t used = 0;
    int in_point = 0;
    for (; *from != '\0'; from++) {
        int plain = is_digit(*from) || *from == '-' || *from == '+' || *from == 'e';
        if (plain || !in_point) {
            assert(used < 31);
            out[used++] = plain ? *from : '.';
        }
        in_point = !plain;
    }
    out[used] = '\0';
}

void base_format_double(double value, char out[32]) {
    assert(isfinite(value));
    for (int precision = 15; precision <= 17; precision++) {
        char local[64];
        double back = 0;
        snprintf(local, sizeof local, "%.*g", precision, value);
        copy_with_point(local, out);
        int same = base_parse_double(out, strlen(out), &back) && back == value;
        assert(same || precision < 17);
        if (same) return;
    }
}

double base_safe_digits(double value, int digits, int side) {
    char text[64];
    if (value == 0 || !isfinite(value) || side == 0) return value;
    const double unit = fmax(pow(10, floor(log10(fabs(value))) - (digits - 1)), DBL_TRUE_MIN);
    double shown = value;
    for (int more = 0; more < 4; more++) { /* the nearest, or the next one; a third where the logarithm was rounded */
        snprintf(text, sizeof text, "%.*e", digits - 1, value + side * more * unit);
        shown = strtod(text, NULL);
        if (side * shown >= side * value) break;
    }
    return shown;
}

/* The length of the sequence that starts at `p`, or 0 if it is not valid (Unicode 15, Table 3-7). */
static size_t utf8_sequence(const uint8_t *p, size_t left) {
    uint8_t a = p[0], low = 0x80, high = 0xbf;
    size_t size;
    if (a < 0x80) return 1;
    if (a >= 0xc2 && a <= 0xdf) {
        size = 2;
    } else if (a >= 0xe0 && a <= 0xef) {
        size = 3;
        if (a == 0xe0) low = 0xa0;  /* shorter forms exist below */
        if (a == 0xed) high = 0x9f; /* surrogates above */
    } else if (a >= 0xf0 && a <= 0xf4) {
        size = 4;
        if (a == 0xf0) low = 0x90;
        if (a == 0xf4) high = 0x8f; /* nothing above U+10FFFF */
    } else {
        return 0;
    }
    if (left < size || p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < size; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return size;
}

int base_utf8_valid(const uint8_t *text, size_t length) {
    for (size_t i = 0; i < length;) {
        size_t size = utf8_sequence(text + i, length - i);
        if (size == 0) return 0;
        i += size;
    }
    return 1;
}

const char *base_show(const char *text, size_t length, char out[64]) {
    size_t shown = length <= 60 ? length : 57;
    for (size_t i = 0; i < shown; i++)
        out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    out[shown] = '\0';
    if (shown < length) strcat(out, "...");
    return out;
}

void base_text_add(base_text *text, const char *format, ...) {
    va_list arguments;
    size_t room = text->length < text->size ? text->size - text->length : 0;
    va_start(arguments, format);
    int count = vsnprintf(room > 0 ? text->out + text->length : NULL, room, format, arguments);
    va_end(arguments);
    if (count > 0) text->length += (size_t)count;
}
