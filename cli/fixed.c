/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal numbers and 2^-places. With |whole part| < 2^127 and the first 19 digits after the point as an integer
 * m < 10^19 < 2^64, the fraction is m 2^places/10^19 to the nearest, and m 2^60 fits 128 bits; the later digits add
 * less than 10^-19 < 2^-63. Printing is the reverse: fraction x 10^decimals / 2^places, below 2^60 x 2^60.
 *
 * Nearly all numbers are a sign, up to 18 digits and a point: they are read without strtod and without dividing 128 bits.
 * The value is the same: m/10^f rounded is m 10^(19-f)/10^19 rounded.
 */
#include "fixed.h"

#include "options/options.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

static const wide TEN = 10;
enum { FRACTION_DIGITS = 19, SHORT_DIGITS = 18, EXPONENT_ENOUGH = 100000 };

static uint64_t power_of_ten(int exponent) {
    uint64_t power = 1;
    while (exponent-- > 0)
        power *= 10;
    return power;
}

/* ---- reading ---- */

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

static bool finish(wide value, bool negative, fixed limit, fixed *out) {
    if (value >= (wide)limit) return false;
    *out = negative ? -(fixed)value : (fixed)value;
    return true;
}

/* Any decimal number, ended with a zero. */
static bool read_any(const char *word, int places, fixed limit, fixed *out) {
    double value = 0.0;
    if (!read_number(word, &value)) return false;
    const bool negative = *word == '-';
    const mantissa m = scan(word + (*word == '-' || *word == '+'));
    const wide most = (wide)limit >> places;
    wide whole = 0, fraction = 0, unit = 1;
    for (long i = 0; i < m.point; i++) {
        whole = TEN * whole + digit_of(&m, i);
        if (whole > most) return false;
        if (whole == 0 && i >= m.length) break;
    }
    for (long i = 0; i < FRACTION_DIGITS; i++, unit *= 10)
        fraction = TEN * fraction + digit_of(&m, m.point + i);
    return finish((whole << places) + ((fraction << places) + unit / 2) / unit, negative, limit, out);
}

/* A sign, up to 18 digits and a point; false where it is more. *good: it is a number below the limit. */
static bool read_short(const char *word, size_t length, int places, fixed limit, fixed *out, bool *good) {
    const char *at = word, *const end = word + length;
    const bool negative = length > 0 && *at == '-';
    int digits = 0, point = -1;
    uint64_t value = 0;
    if (length > SHORT_DIGITS + 2) return false;
    if (at < end && (*at == '-' || *at == '+')) at++;
    for (; at < end; at++) {
        const unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit <= 9) {
            value = 10 * value + digit;
            digits++;
        } else if (*at == '.' && point < 0) {
            point = digits;
        } else {
            return false;
        }
    }
    if (digits < 1 || digits > SHORT_DIGITS) return false;
    const uint64_t unit = power_of_ten(point < 0 ? 0 : digits - point), whole = value / unit, rest = value % unit;
    wide fraction = (wide)rest << places;
    if (fraction >> 63 == 0)
        fraction = ((uint64_t)fraction + unit / 2) / unit;
    else
        fraction = (fraction + unit / 2) / unit;
    *good = finish(((wide)whole << places) + fraction, negative, limit, out);
    return true;
}

bool fixed_read(const char *word, size_t length, int places, fixed limit, fixed *out) {
    char small[128];
    bool good = false;
    if (read_short(word, length, places, limit, out, &good)) return good;
    if (memchr(word, '\0', length) != NULL) return false;
    char *text = length < sizeof small ? small : malloc(length + 1);
    if (text == NULL) return false;
    memcpy(text, word, length);
    text[length] = '\0';
    good = read_any(text, places, limit, out);
    if (text != small) free(text);
    return good;
}

double fixed_value(fixed x, int places) {
    return ldexp((double)x, -places);
}

/* ---- printing ---- */

static const char PAIRS[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
    "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
    "9899";

/* The digits of x, `least` of them at least; two at a time, from the last on. */
static char *put_digits(char *out, wide x, int least) {
    char digits[48];
    int at = sizeof digits;
    for (; x >> 64 != 0; x /= 10)
        digits[--at] = (char)('0' + (int)(x % 10));
    uint64_t rest = (uint64_t)x;
    for (; rest >= 100; rest /= 100)
        memcpy(digits + (at -= 2), PAIRS + 2 * (rest % 100), 2);
    if (rest >= 10) {
        memcpy(digits + (at -= 2), PAIRS + 2 * rest, 2);
    } else if (rest > 0) {
        digits[--at] = (char)('0' + (int)rest);
    }
    while ((int)sizeof digits - at < least)
        digits[--at] = '0';
    memcpy(out, digits + at, sizeof digits - (size_t)at);
    return out + sizeof digits - (size_t)at;
}

char *fixed_print(char out[FIXED_TEXT], fixed x, int places, int decimals) {
    const wide size = x < 0 ? -(wide)x : (wide)x, mask = ((wide)1 << places) - 1, unit = power_of_ten(decimals);
    wide whole = size >> places;
    wide fraction = (((size & mask) * unit << 1) + ((wide)1 << places)) >> (places + 1);
    if (fraction >= unit) {
        fraction -= unit;
        whole++;
    }
    if (x < 0 && (whole > 0 || fraction > 0)) *out++ = '-';
    out = put_digits(out, whole, 1);
    if (decimals == 0) return out;
    *out++ = '.';
    return put_digits(out, fraction, decimals);
}

double safe_digits(double value, int digits, int side) {
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
