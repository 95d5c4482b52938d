/* SPDX-License-Identifier: Apache-2.0 */
/* Values and help of options that the library's own tables know: families, participations, samplings; and formats. */
#ifndef DPMF_CLI_OPTIONS_KINDS_H
#define DPMF_CLI_OPTIONS_KINDS_H

#include "dpmf.h"
#include "options/options.h"

#include <stddef.h>

/* Words joined by '|', as option_row.values has them; made once, never freed. */
const char *family_values(verb_id verb);
const char *participation_values(verb_id verb);
const char *sampling_values(verb_id verb);
const char *format_values(verb_id verb);

/* The help of --family. */
const char *family_help(void);

/*
 * Names of some families in a sentence: "a, b and c". `place` is the position of each, from 1, or 0 for names that are
 * left out; those in the same place follow the library's table. Returns `out`.
 */
enum { FAMILY_LIST = 400 };
const char *family_list(int (*place)(const dpmf_family *kind), const char *last, char out[FAMILY_LIST]);

#endif
