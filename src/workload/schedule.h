/* SPDX-License-Identifier: Apache-2.0 */
/* Learning-rate schedules by name: one row each, from which parsing and messages come. */
#ifndef DPMF_WORKLOAD_SCHEDULE_H
#define DPMF_WORKLOAD_SCHEDULE_H

#include "base/status.h"

/* A parameter of a schedule and its range. */
typedef struct workload_schedule_value {
    const char *name;
    int open; /* 1: `low` itself is not accepted */
    double low, high;
    int whole; /* 1: a whole number */
} workload_schedule_value;

typedef struct workload_schedule {
    const char *name, *form, *example;
    int values;
    workload_schedule_value value[2];
    void (*fill)(int64_t steps, const double *value, double *rates); /* a multiplication */
} workload_schedule;

int64_t workload_schedule_count(void);
const workload_schedule *workload_schedule_at(int64_t i); /* NULL outside */

#endif
