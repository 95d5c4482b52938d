/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A search along one line for a step that lowers a function enough and flattens it enough. It sees numbers only: the
 * caller evaluates phi(step) = f(x + step d) and phi'(step) = gradient . d wherever it asks.
 */
#ifndef DPMF_BASE_DESCENT_LINE_SEARCH_H
#define DPMF_BASE_DESCENT_LINE_SEARCH_H

typedef struct descent_line_point {
    double step, value, slope;
} descent_line_point;

typedef struct descent_line_search {
    descent_line_point start;       /* step 0 */
    descent_line_point best, other; /* the ends of the interval; other is the start until there is one */
    double width, width_before;     /* of the interval now and one trial before */
    double next;                    /* the step to try */
    int bracketed;                  /* the interval holds a minimum */
    int early; /* no trial has met the first condition while rising enough: phi - MU phi'(0) step is searched */
    int trials;
} descent_line_search;

typedef enum descent_line_end {
    DESCENT_LINE_GOES_ON, /* search->next is to be tried */
    DESCENT_LINE_FOUND,   /* the last trial meets both conditions */
    DESCENT_LINE_STUCK    /* the interval cannot be divided any more, or too many trials */
} descent_line_end;

/* value and slope < 0 at step 0; `step` > 0 is the first to try. */
void descent_line_start(descent_line_search *search, double value, double slope, double step);

/* Reports the value and slope at search->next. */
descent_line_end descent_line_take(descent_line_search *search, double value, double slope);

/*
 * Reports that phi is infinite or not a number at search->next. The interval ends there and is halved, and this step is
 * never accepted. As the numbers of that end serve those of the start with the slope's sign turned: a parabola that
 * falls and rises again.
 */
descent_line_end descent_line_take_wall(descent_line_search *search);

#endif
