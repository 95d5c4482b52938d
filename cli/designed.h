/* SPDX-License-Identifier: Apache-2.0 */
/* The constraints under which a design chose a mechanism, in words. */
#ifndef DPMF_CLI_DESIGNED_H
#define DPMF_CLI_DESIGNED_H

#include "dpmf.h"

enum { BYTES_SHOWN = 24, DESIGNED_MAX = 300 };

/* "1.5 GiB" */
const char *show_bytes(uint64_t bytes, char out[BYTES_SHOWN]);

/* "rows of 1000000 numbers, memory at most 1 GiB, at most 4 times the time of independent noise, least RMS noise" */
const char *designed_words(const dpmf_design_limits *d, char out[DESIGNED_MAX]);

#endif
