/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a released stream, in lines or in dates, with their answers and intervals. */
#ifndef DPMF_CLI_QUESTIONS_H
#define DPMF_CLI_QUESTIONS_H

#include "released.h"

typedef struct question {
    char name[80];
    int64_t lines;   /* that it sums */
    double *weights; /* of the lines; `deviation` is that of each column */
    double deviation;
} question;

typedef struct questions {
    int64_t count;
    question *of;
    double alone,
        together;      /* half the width of an interval in deviations: each at the level; all of them at the level */
    int64_t simulated; /* samples behind `together`; 0: by Sidak's inequality, or there is one */
} questions;

/* --range, --last and --by: is one of them given? */
bool questions_asked(const arguments *given);

/* Makes and answers them: 0, or the exit code after a message. Free it in any case; start from {0}. */
int questions_make(const arguments *given, const released *r, questions *out);
void questions_free(questions *q);

/*
 * The smallest known multiplier for intervals of all questions and of as many independent columns (together.c).
 * `weights` and `deviation` of the questions are known.
 */
int together_multiplier(const released *r, int64_t count, const question *of, double level, int64_t columns,
                        double *multiplier, int64_t *simulated);

/* The same for all totals of one column. */
int together_totals(const released *r, double level, double *multiplier, int64_t *simulated);

#endif
