/* SPDX-License-Identifier: Apache-2.0 */
/* account --log: the privacy of the actual run, from its log of participations. */
#ifndef DPMF_CLI_OBSERVED_H
#define DPMF_CLI_OBSERVED_H

#include "letters/letters.h"
#include "log.h"
#include "output.h"

typedef struct observed_run {
    bool asked;
    participation_log log;
    dpmf_sensitivity sensitivity, designed;
    int64_t worst;        /* client */
    double sigma;         /* the noise of the run over the observed sensitivity */
    dpmf_privacy privacy; /* of the run */
    bool of_delta;        /* the question is for delta, not epsilon */
} observed_run;

/* Reads the log and finds its sensitivity. 0, or the exit code after a message. */
int observed_open(const char *path, const dpmf_mechanism *mechanism, dpmf_run run, observed_run *out);
void observed_close(observed_run *o);

/* With `designed`, the result for `sigma` and the file's own sensitivity: the same question for the run. */
dpmf_status observed_account(observed_run *o, double sigma, const dpmf_privacy *designed,
                             const dpmf_account_options *how);

void observed_json(text_buffer *t, const observed_run *o);
void observed_table(text_buffer *t, const observed_run *o);
void observed_statement(text_buffer *t, const observed_run *o, alphabet how);

/* Does the log certainly break the design's assumption? Then the design's guarantee does not hold. */
bool observed_breaks(const observed_run *o);

#endif
