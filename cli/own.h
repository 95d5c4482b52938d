/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of the user's own: a factorization of any shape, constant-recurrent coefficients. Numbers of --parameters files. */
#ifndef DPMF_CLI_OWN_H
#define DPMF_CLI_OWN_H

#include "family.h"

#include <cjson/cJSON.h>

/* The contents of a file. */
typedef struct numbers {
    const char *path;
    const char *key; /* one of those above */
    int64_t count;   /* coefficients, diagonals or rows */
    int64_t width;   /* of one row of `values`: 1, the diagonals, or the columns */
    double *values;  /* from malloc */
    int inverses;    /* of a BLT: bits of the lists below that the file has, beside the scales */
    double inverse[3][DPMF_BLT_BUFFERS_MAX]; /* scales, gaps and decays of C^-1 */
} numbers;

/* Each: 0, or the exit code after a message (cli/parameters.c). The caller frees n->values in any case. */
int read_numbers(const char *path, const dpmf_family *kind, int64_t steps, numbers *n);
int read_list(const cJSON *list, numbers *n, double *values, int64_t stride);
int check_lengths(const cJSON *lists, const numbers *n, int64_t first, int64_t shrink);
int bad_file(const char *path, const char *problem);

/* How the library's table calls the numbers of constant-recurrent coefficients; the key of a file that has them. */
#define RECURRENCE "matrix, u and v"
int read_recurrence(const cJSON *tree, numbers *n);

/* Does the library make it from a matrix in dpmf_strategy_options? */
bool takes_own_matrix(const dpmf_family *kind);

/* The path of --decoder file:PATH, or NULL. */
const char *decoder_path(const arguments *given);

/* From --parameters, and --decoder file:. */
int make_own(const arguments *given, const dpmf_family *kind, const dpmf_workload *workload,
             const strategy_shape *shape, dpmf_strategy **out);

#endif
