/* SPDX-License-Identifier: Apache-2.0 */
/* Learning-rate schedules by name: one part of a text, as factors of each step. Workloads and the trainer share them. */
#ifndef DPMF_BASE_SCHEDULE_H
#define DPMF_BASE_SCHEDULE_H

#include "base/status.h"

enum { BASE_SCHEDULE_TEXT = 80 };

/* Does text[0..length) begin with the name of a schedule that its values follow, or that needs none? */
int base_schedule_knows(const char *text, size_t length);

/*
 * Multiplies factors[0..steps) by those of such a text, and writes the text in its canonical form. `what` begins a message.
 * inverted = 1: a factor of 0 is refused.
 */
DPMF_MUST_CHECK dpmf_status base_schedule_apply(const char *what, int inverted, const char *text, size_t length,
                                                int64_t steps, double *factors, char out[BASE_SCHEDULE_TEXT]);

#endif
