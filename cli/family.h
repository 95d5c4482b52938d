/* SPDX-License-Identifier: Apache-2.0 */
/* The families of --family, which the library lists, and the strategies that the options describe. */
#ifndef DPMF_CLI_FAMILY_H
#define DPMF_CLI_FAMILY_H

#include "dpmf.h"
#include "options/options.h"

#include <stddef.h>

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
    char *made_by; /* MADE_BY bytes for where a given matrix came from, where it was changed; or NULL */
} strategy_shape;
enum { MADE_BY = 80 };

/*
 * The strategy that the options describe, for a family that check_family accepts. `workload` is what a closed form is
 * made from.
 */
int make_strategy(const arguments *given, const dpmf_family *kind, const dpmf_workload *workload, strategy_shape shape,
                  dpmf_strategy **out);

/* Is --stamps auto given? */
bool stamps_chosen(const arguments *given);

/* The options of a closed form for any number of stamps: 0, or the exit code after a message. */
int read_closed_form(const arguments *given, const dpmf_family *kind, int64_t steps, dpmf_strategy_options *out);

/* Values and help of options that the library's own tables know: families, participations, samplings; and formats. */

/* Words joined by '|', as option_row.values has them; made once, never freed. */
const char *family_values(verb_id verb);
const char *participation_values(verb_id verb);
const char *sampling_values(verb_id verb);
const char *format_values(verb_id verb);
const char *by_values(verb_id verb);

/* The help of --family. */
const char *family_help(void);

/*
 * Names of some families in a sentence: "a, b and c". The int member `field` of dpmf_family is the position of each, from
 * 1, or 0 for names that are left out; those in the same place follow the library's table. Returns `out`.
 */
enum { FAMILY_LIST = 400 };
#define FAMILY_LIST_BY(field, last, out) family_list(offsetof(dpmf_family, field), last, out)
#define FAMILY_ANY ((size_t)-1) /* instead of a member: all of them */
const char *family_list(size_t field, const char *last, char out[FAMILY_LIST]);

/* The --parameters file: a strategy's own numbers, as JSON or .npy. */

/*
 * Reads a strategy of the family for `steps` steps; *bands is the number of diagonals that the file gives. 0, or the
 * exit code after a message: 1 if the file is bad in itself or has the wrong lengths, 2 if it holds another family's
 * numbers.
 */
int read_strategy(const char *path, const dpmf_family *kind, int64_t steps, int64_t *bands, dpmf_strategy **out);

#endif
