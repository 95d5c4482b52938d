/* SPDX-License-Identifier: Apache-2.0 */
/* Whole multiples of 2^-places in 128 bits: sums that are exact, whatever their size beside their parts. */
#ifndef DPMF_CLI_FIXED_H
#define DPMF_CLI_FIXED_H

#include "output.h"

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef __int128 fixed;

enum { FIXED_PLACES_MAX = 60 };

/* A finite decimal number, to the nearest multiple; false where that is `limit` or more in size. */
bool fixed_read(const char *word, int places, fixed limit, fixed *out);

/* floor(x 2^places + 1/2): adding a whole number before or after makes no difference. False beyond 2^100. */
bool fixed_round(double x, int places, fixed *out);

double fixed_value(fixed x, int places);

/* With `decimals` digits after the point, correctly rounded; at most 18. */
void fixed_print(text_buffer *t, fixed x, int places, int decimals);

#endif
