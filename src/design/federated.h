/* SPDX-License-Identifier: Apache-2.0 */
/* Federated candidates: strategies and how their losses change with the separation (design/federated.c). */
#ifndef DPMF_DESIGN_FEDERATED_H
#define DPMF_DESIGN_FEDERATED_H

#include "design/design.h"

enum {
    DESIGN_FEDERATED_POINTS = 33, /* separations at which candidates are compared, both ends among them */
    DESIGN_FEDERATED_MADE_FOR = 5 /* separations that candidates are made for: the ends and three between */
};

typedef struct design_federated_item {
    dpmf_strategy *strategy;              /* owned */
    double loss[DESIGN_FEDERATED_POINTS]; /* sensitivity under min-sep k, s x error: at equal privacy for each s */
    double worst;                         /* largest loss over the least loss of any candidate at the same s */
    int64_t worst_at;                     /* the s of that */
    int dominated; /* another of its family has no more buffers and is no worse, and better in one of them */
    char made_by[160];
} design_federated_item;

typedef struct design_federated_range {
    int64_t points, separation[DESIGN_FEDERATED_POINTS];
    double least[DESIGN_FEDERATED_POINTS]; /* of the candidates' losses */
    int64_t count, capacity;
    design_federated_item *item;
} design_federated_range;

/* Fills `out` with all candidates of the requested families, their losses and their worst ratios. */
DPMF_MUST_CHECK dpmf_status design_federated_open(dpmf_design *d, design_federated_range *out);
void design_federated_close(design_federated_range *f); /* a zeroed one is fine */

#endif
