/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal numbers and 2^-places. With |whole part| < 2^127 and the first 19 digits after the point as an integer
 * m < 10^19 < 2^64, the fraction is m 2^places/10^19 to the nearest, and m 2^60 fits 128 bits; what later digits add is
 * below 10^-19 < 2^-63. Printing goes the other way: fraction x 10^decimals / 2^places, below 2^60 x 2^60.
 */
#include "fixed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

static const wide TEN = 10;
enum { FRACTION_DIGITS = 19, EXPONENT_ENOUGH = 100000 };

/* digit(i): the i-th digit of the mantissa, 0 outside; the point is before digit `point`. */
typedef struct mantissa {
    const char *text;
    long length, point;
} mantissa;

static wide digit_of(const mantissa *m, long i) {
    const char *dot = memchr(m->text, '.', (size_t)m->length);
    if (i < 0 || i >= m->length) return 0;
    if (dot != NULL && m->text + i >= dot) i++;
    return i < m->length ? (wide)(m->text[i] - '0') : 0;
}

static mantissa scan(const char *word) {
    const size_t length = strcspn(word, "eE");
    const char *dot = memchr(word, '.', length);
    long exponent = word[length] != '\0' ? strtol(word + length + 1, NULL, 10) : 0;
    if (exponent > EXPONENT_ENOUGH) exponent = EXPONENT_ENOUGH;
    if (exponent < -EXPONENT_ENOUGH) exponent = -EXPONENT_ENOUGH;
    return (mantissa){word, (long)length, (dot != NULL ? dot - word : (long)length) + exponent};
}

bool fixed_read(const char *word, int places, fixed limit, fixed *out) {
    const bool negative = *word == '-';
    const mantissa m = scan(word + (*word == '-' || *word == '+'));
    const wide most = (wide)limit >> places;
    wide whole = 0, fraction = 0, unit = 1;
    for (long i = 0; i < m.point; ++i) {
        whole = TEN * whole + digit_of(&m, i);
        if (whole > most) return false;
        if (whole == 0 && i >= m.length) break;
    }
    for (long i = 0; i < FRACTION_DIGITS; ++i, unit *= 10)
        fraction = TEN * fraction + digit_of(&m, m.point + i);
    const wide value = (whole << places) + ((fraction << places) + unit / 2) / unit;
    if (value >= (wide)limit) return false;
    *out = negative ? -(fixed)value : (fixed)value;
    return true;
}

bool fixed_round(double x, int places, fixed *out) {
    const double y = ldexp(x, places), below = floor(y);
    if (!(fabs(y) < 0x1p100)) return false;
    *out = (fixed)below + (y - below >= 0.5);
    return true;
}

double fixed_value(fixed x, int places) {
    return ldexp((double)x, -places);
}

static void print_wide(text_buffer *t, wide x) {
    char digits[48];
    int at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + (int)(x % 10));
        x /= 10;
    } while (x > 0);
    text_add(t, "%s", digits + at);
}

void fixed_print(text_buffer *t, fixed x, int places, int decimals) {
    const wide size = x < 0 ? (wide)-x : (wide)x, mask = ((wide)1 << places) - 1;
    wide whole = size >> places, unit = 1;
    for (int i = 0; i < decimals; ++i)
        unit *= 10;
    wide fraction = (((size & mask) * unit << 1) + ((wide)1 << places)) >> (places + 1);
    if (fraction >= unit) {
        fraction -= unit;
        whole++;
    }
    if (x < 0 && (whole > 0 || fraction > 0)) text_add(t, "-");
    print_wide(t, whole);
    if (decimals > 0) text_add(t, ".%0*llu", decimals, (unsigned long long)fraction);
}
