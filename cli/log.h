/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of a run: a CSV file with the header line "client,round" and one line for every time that a client took part.
 * Clients are any text (valid UTF-8 without commas, quotes or control characters, 1 to 200 bytes, compared byte by
 * byte); rounds are whole numbers from 0. Nothing is guessed: a line that is not of this form is refused with its
 * number.
 */
#ifndef DPMF_CLI_LOG_H
#define DPMF_CLI_LOG_H

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

#endif
