/* SPDX-License-Identifier: Apache-2.0 */
/* One function per verb, each in its cmd_<verb>.c; the answer is the exit code. */
#ifndef DPMF_CLI_VERBS_H
#define DPMF_CLI_VERBS_H

#include "options/options.h"

int cmd_plan(const arguments *given);
int cmd_design(const arguments *given);
int cmd_evaluate(const arguments *given);
int cmd_optimize(const arguments *given);
int cmd_account(const arguments *given);
int cmd_calibrate(const arguments *given);
int cmd_noise(const arguments *given);
int cmd_bound(const arguments *given);
int cmd_count(const arguments *given);
int cmd_query(const arguments *given);
int cmd_train(const arguments *given);
int cmd_predict(const arguments *given);
int cmd_inspect(const arguments *given);
int cmd_verify(const arguments *given);
int cmd_audit(const arguments *given);
int cmd_report(const arguments *given);
int cmd_bench(const arguments *given);
int cmd_help(const arguments *given);

/* Prints the general help, or that of one verb (cmd_help.c). */
int print_tour(void); /* a few commands to begin with */
int print_general_help(void);
int print_verb_help(verb_id verb);

/*
 * The help for newcomers: the options of each verb that most runs give, with an example each, and the file that -o
 * writes.
 */

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
