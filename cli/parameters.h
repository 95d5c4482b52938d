/* SPDX-License-Identifier: Apache-2.0 */
/* The --parameters file: a strategy's own numbers, as JSON or .npy. */
#ifndef DPMF_CLI_PARAMETERS_H
#define DPMF_CLI_PARAMETERS_H

#include "dpmf.h"
#include "family.h"

/*
 * Reads a strategy of the family for `steps` steps; *bands is the number of diagonals that the file gives. 0, or the
 * exit code after a message: 1 if the file is bad in itself or has the wrong lengths, 2 if it holds another family's
 * numbers.
 */
int read_strategy(const char *path, const dpmf_family *kind, int64_t steps, int64_t *bands, dpmf_strategy **out);

#endif
