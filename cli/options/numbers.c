/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts are read as decimal texts, not through a double, so that every whole number up to 2^63 - 1 is exact and
 * nothing is rounded into the accepted range. The program never calls setlocale, so strtod's point is always '.'.
 */
#include "options/numbers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The parts of [+-]digits[.digits][e[+-]digits], of which `rest` follows. */
typedef struct decimal {
    bool negative;
    const char *digits; /* where the mantissa starts */
    size_t length;      /* of the mantissa, the point included */
    int point;          /* digits after the point */
    long exponent;
    const char *rest;
} decimal;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool scan(const char *text, decimal *out) {
    memset(out, 0, sizeof *out);
    out->negative = *text == '-';
    if (*text == '+' || *text == '-') text++;
    out->digits = text;
    int before = 0;
    while (is_digit(*text))
        text++, before++;
    if (*text == '.')
        for (text++; is_digit(*text); text++) {
            if (out->point > 10000) return false; /* keeps the arithmetic on exponents far from overflow */
            out->point++;
        }
    if (before + out->point == 0) return false;
    out->length = (size_t)(text - out->digits);
    if (*text == 'e' || *text == 'E') {
        text++;
        if (!is_digit(text[*text == '+' || *text == '-'])) return false;
        char *end;
        errno = 0;
        out->exponent = strtol(text, &end, 10);
        if (errno != 0 || out->exponent > 100000 || out->exponent < -100000) return false;
        text = end;
    }
    out->rest = text;
    return true;
}

/* value * 10 + digit, or false past 2^63 - 1. */
static bool append_digit(int64_t *value, int digit) {
    return !__builtin_mul_overflow(*value, (int64_t)10, value) &&
           !__builtin_add_overflow(*value, (int64_t)digit, value);
}

bool read_count(const char *text, int64_t *out) {
    decimal d;
    if (!scan(text, &d)) return false;
    long shift = d.exponent - d.point; /* the number is the mantissa's digits times 10^shift */
    if (*d.rest == 'k') shift += 3;
    if (*d.rest == 'M') shift += 6;
    if (*d.rest == 'G') shift += 9;
    if (strchr("kMG", *d.rest) != NULL && *d.rest != '\0') ++d.rest;
    if (*d.rest != '\0') return false;

    /* Zeros at the end of the mantissa are given back to the exponent: 1.50e1 is whole. */
    while (d.length > 0 && shift < 0) {
        char last = d.digits[d.length - 1];
        if (last != '0' && last != '.') return false;
        d.length--;
        if (last == '0') shift++;
    }
    int64_t value = 0;
    for (size_t i = 0; i < d.length; i++)
        if (d.digits[i] != '.' && !append_digit(&value, d.digits[i] - '0')) return false;
    for (; shift > 0 && value != 0; shift--)
        if (!append_digit(&value, 0)) return false;
    *out = d.negative ? -value : value;
    return true;
}

bool read_bytes(const char *text, int64_t *out) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    char mantissa[64];
    size_t length = strlen(text);
    for (int i = 0; i < 4; i++) {
        if (length <= 3 || length - 3 >= sizeof mantissa || strcmp(text + length - 3, units[i]) != 0) continue;
        memcpy(mantissa, text, length - 3);
        mantissa[length - 3] = '\0';
        double value = 0.0;
        if (!read_number(mantissa, &value)) return false;
        value = floor(ldexp(value, 10 * (i + 1))); /* a part of a byte is none */
        if (!(value > -9e18 && value < 9e18)) return false;
        *out = (int64_t)value;
        return true;
    }
    /* 1GB, 2g, 1T: powers of 1000 as in counts, in either case and with or without a B. */
    if (length > 1 && (text[length - 1] == 'B' || text[length - 1] == 'b')) length--;
    const char *letters = "kKmMgGtT", *unit = length > 1 ? strchr(letters, text[length - 1]) : NULL;
    if (unit != NULL) length--;
    if (length == 0 || length >= sizeof mantissa - 3) return false;
    memcpy(mantissa, text, length);
    mantissa[length] = '\0';
    if (strpbrk(mantissa, letters) != NULL) return false;
    strcat(mantissa, unit == NULL ? "" : unit - letters < 2 ? "k" : unit - letters < 4 ? "M" : "G");
    if (!read_count(mantissa, out)) return false;
    return unit == NULL || unit - letters < 6 || !__builtin_mul_overflow(*out, (int64_t)1000, out);
}

bool read_number(const char *text, double *out) {
    decimal d;
    if (!scan(text, &d) || *d.rest != '\0') return false;
    double value = strtod(text, NULL);
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}
