/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: what its files share. design/plan.c finds the points and the recommendation, design/plan_text.c writes them. */
#ifndef DPMF_DESIGN_PLAN_H
#define DPMF_DESIGN_PLAN_H

#include "design/design.h"

enum { PLAN_RULE = 400, PLAN_WHY = 3000 };

struct dpmf_plan {
    dpmf_plan_options options; /* with the presets filled in */
    int64_t count, recommended;
    dpmf_plan_row *rows; /* owned */
    dpmf_design *
        *designs; /* owned; with the chosen candidate alone; after the plan is made, only the recommended one is left */
    char rule[PLAN_RULE], why[PLAN_WHY];
    char *text; /* owned */
};

/*
 * The rule: marks the best point of each number of epochs, for the chosen mechanisms and for independent noise, and returns the
 * recommended one. Rows are in order of epochs and then of steps. A function of epochs, steps and noise per epoch alone.
 */
int64_t plan_recommend(dpmf_plan_row *rows, int64_t count, double within);

/* design/plan_text.c: fills in the rule, the sentences and the text with the table. The recommended design is finished. */
DPMF_MUST_CHECK dpmf_status plan_text_make(dpmf_plan *p);

#endif
