/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of a run: a CSV file with the header line "client,round" and one line for every time that a client took part.
 * Clients are any text (valid UTF-8 without commas, quotes or control characters, 1 to 200 bytes, compared byte by
 * byte); rounds are whole numbers from 0. Nothing is guessed: a line that is not of this form is refused with its
 * number.
 */
#ifndef DPMF_CLI_LOG_H
#define DPMF_CLI_LOG_H

#include "output.h"

#include <stdint.h>

enum { CLIENT_MAX = 200 };

typedef struct participation_log {
    int64_t count; /* participations; number i is on line i + 2 */
    int64_t *client, *round;
    int64_t clients; /* numbered as they first appear */
    int64_t *begins; /* of their names */
    char *names;
    int64_t bytes; /* of all names */
} participation_log;

/* Reads `path`, with rounds below `steps`. 0, or the exit code after a message. */
int log_read(const char *path, int64_t steps, participation_log *out);
void log_free(participation_log *log);

const char *log_client(const participation_log *log, int64_t client); /* its name */

/* Two participations of one client in one round: 1 and the later of them; 0: none; -1: no memory. */
int log_find_repeat(const participation_log *log, int64_t *later);

/* account --log: the privacy of the actual run, from its log of participations. */

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
