/* SPDX-License-Identifier: Apache-2.0 */
/* Whole multiples of 2^-places in 128 bits: sums are exact for terms of any size. Decimal digits on the safe side of a number. */
#ifndef DPMF_CLI_FIXED_H
#define DPMF_CLI_FIXED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

__extension__ typedef __int128 fixed;

enum { FIXED_PLACES_MAX = 60, FIXED_TEXT = 64 };

/*
 * word[0..length) as a finite decimal number (digits, point, exponent; nothing else), to the nearest multiple; false where it
 * is none, or `limit` or more in size.
 */
bool fixed_read(const char *word, size_t length, int places, fixed limit, fixed *out);

double fixed_value(fixed x, int places);

/* With `decimals` digits after the point, correctly rounded; at most 18. Returns the end; no zero is written. */
char *fixed_print(char out[FIXED_TEXT], fixed x, int places, int decimals);

/* The nearest number of `digits` digits, as %.*g prints them, not below (side 1) or above (-1) the value; side 0: the value. */
double safe_digits(double value, int digits, int side);

#endif
