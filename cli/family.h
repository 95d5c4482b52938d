/* SPDX-License-Identifier: Apache-2.0 */
/* The families of --family, which the library lists, and the strategies that the options describe. */
#ifndef DPMF_CLI_FAMILY_H
#define DPMF_CLI_FAMILY_H

#include "dpmf.h"
#include "options/options.h"

/* The family of that name; NULL if there is none. */
const dpmf_family *find_family(const char *name);

/* 0 if the family exists and takes the options given; else the exit code after a message. */
int check_family(const char *name, const arguments *given);

/* The family that --decoder, where it is given, makes of this one: tree-online with the optimal decoder is tree-full.
 */
const char *decoded_family(const char *name, const arguments *given);

/* The diagonals of C, or of C^-1, that its family is named for; 0: none. */
int64_t family_bands(const dpmf_strategy *strategy);

/* The values of a strategy's options that were not given. */
typedef struct strategy_shape {
    int64_t bands; /* 0: not known */
    int64_t stamps;
    bool normalize;
} strategy_shape;

/*
 * The strategy that the options describe, for a family that check_family accepts. `workload` is what a closed form is
 * made from.
 */
int make_strategy(const arguments *given, const dpmf_family *kind, const dpmf_workload *workload, strategy_shape shape,
                  dpmf_strategy **out);

#endif
