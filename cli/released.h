/* SPDX-License-Identifier: Apache-2.0 */
/* A stream that count has written, with its mechanism. */
#ifndef DPMF_CLI_RELEASED_H
#define DPMF_CLI_RELEASED_H

#include "dpmf.h"
#include "options/options.h"

typedef struct released {
    dpmf_mechanism *mechanism;
    const dpmf_workload *workload;
    const dpmf_strategy *strategy;
    int64_t lines;
    double *total; /* of the column asked for */
    double *error; /* the standard deviation of each, from the mechanism */
    double scale;  /* clip x sigma x sensitivity */
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

/* The sum over the lines of a span, and the standard deviation of one less another. */
double released_sum(const released *r, span s);
int released_deviation(const released *r, span plus, span minus, double *out);

#endif
