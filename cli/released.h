/* SPDX-License-Identifier: Apache-2.0 */
/* A stream that count has written, with its mechanism. */
#ifndef DPMF_CLI_RELEASED_H
#define DPMF_CLI_RELEASED_H

#include "calendar.h"
#include "dpmf.h"
#include "options/options.h"
#include "output.h"

typedef struct released {
    dpmf_mechanism *mechanism;
    const dpmf_workload *workload;
    const dpmf_strategy *strategy;
    int64_t lines;
    int64_t columns;    /* that were asked for */
    int64_t *column;    /* their numbers, from 1 */
    text_buffer titles; /* released_title */
    day_span *when;     /* of each line; last below first: it has no date */
    double *total;      /* of the first of them, then of the others, `lines` each */
    double *error;      /* the standard deviation of each, from the mechanism */
    double scale;       /* clip x sigma x sensitivity */
} released;

/* Lines, from 1, both included; 0: none. */
typedef struct span {
    int64_t first, last;
} span;

/*
 * From the operand, --mechanism, --clip and --column: 0, or the exit code after a message. The deviations in the stream
 * must be those of the mechanism. Free it in any case; start from {0}.
 */
int released_read(const arguments *given, released *out);
void released_free(released *r);

/* "A:B" within its lines; `name` is the option's, for the message. Only running sums have ranges. */
int released_span(const released *r, const char *name, const char *text, span *out);

/* The name of a column in the stream's header, else its number; from 0. */
const char *released_title(const released *r, int64_t column);

/* Of the sum over the lines with these weights: the estimate, and the standard deviation of its noise. */
double released_sum(const released *r, int64_t column, const double *weights);
int released_deviation(const released *r, const double *weights, double *out);

#endif
