/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The help for newcomers: the options of each verb that most runs give, with an example each, and the file that -o
 * writes.
 */
#ifndef DPMF_CLI_TOUR_H
#define DPMF_CLI_TOUR_H

#include "options/options.h"

enum { FIRST_OPTIONS = 5 };

typedef struct first_option {
    option_id id;
    const char *example; /* the option as one types it; NULL ends the list */
} first_option;

typedef struct verb_tour {
    first_option first[FIRST_OPTIONS];
    const char *out; /* what -o writes; NULL: the verb has no -o */
} verb_tour;

extern const verb_tour tours[VERB_TOTAL];

/* Groups of the other options, in the order of the table: each begins at `from`. */
typedef struct option_group {
    option_id from;
    const char *title;
} option_group;

extern const option_group option_groups[];
extern const int option_group_total;

/* The commands that `dpmf` alone shows. */
extern const char tour_text[];

#endif
