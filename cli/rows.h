/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of noise and count: whole rows to standard output as they come, or a file that appears when complete. */
#ifndef DPMF_CLI_ROWS_H
#define DPMF_CLI_ROWS_H

#include "base/atomic_file.h"

typedef struct row_output {
    int file;
    const char *path;     /* NULL: standard output */
    atomic_file complete; /* the file, where there is a path */
} row_output;

/* Each: 0, or the exit code after a message. `secret`: a file for the owner alone. */
int rows_open(const char *path, bool secret, row_output *out);

/* Whole rows. A signal that comes while they are being written lets them be completed if the reader still reads. */
int rows_write(row_output *out, const void *bytes, size_t size);

/* Syncs and gives the file its name; closes standard output. */
int rows_finish(row_output *out);

/* A file to be removed if the program ends at once, or NULL. */
const char *rows_left_behind(const row_output *out);

/* Removes what is not complete; after rows_finish nothing is left to do. */
void rows_close(row_output *out);

#endif
