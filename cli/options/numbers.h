/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people type them. */
#ifndef DPMF_CLI_NUMBERS_H
#define DPMF_CLI_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* A whole number: 1000000, 1e6, 1.5e3, 10k, 2M, 1G (powers of 1000). False if not whole or outside +-(2^63 - 1). */
bool read_count(const char *text, int64_t *out);

/* The same for bytes, with KiB, MiB and GiB (powers of 1024) too: 4GiB, 1.5GiB, 500M. */
bool read_bytes(const char *text, int64_t *out);

/* A finite decimal number: digits, point, exponent; no hexadecimal, infinity, NaN or spaces. */
bool read_number(const char *text, double *out);

#endif
