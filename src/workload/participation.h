/* SPDX-License-Identifier: Apache-2.0 */
/* Participation: the record behind the public calls. */
#ifndef DPMF_PARTICIPATION_H
#define DPMF_PARTICIPATION_H

#include "base/status.h"

struct dpmf_participation {
    int references; /* atomic */
    dpmf_participation_kind kind;
    int64_t steps, count, separation;
    char text[64];
};

/* Shares it: one more free is needed. Returns its argument. */
dpmf_participation *dpmf_i_workload_participation_retain(const dpmf_participation *participation);

#endif
